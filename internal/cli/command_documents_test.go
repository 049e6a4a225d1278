package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A document that another program wrote into MongoDB is invalid, and there is no revision yet: commands say so.
func TestCommands_InvalidDocumentsWithoutRevision(t *testing.T) {
	name := fmt.Sprintf("cli-%d-%d", os.Getpid(), prefixes.Add(1))
	uri := testenv.SharedMongo(t).URI()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	if _, err := client.Database(name).Collection("rate_limit_rules").InsertOne(t.Context(), bson.M{
		"_id": "a", "ruleSetId": "api-limits", "limitScope": "USERID", "bands": bson.A{bson.M{"capacity": 5, "refillSeconds": 60}},
	}); err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"mongo.uri=" + uri, "mongo.database=" + name, "rules.source=mongo", "redis.uri=" + testenv.SharedStandalone(t).URI(),
		"redis.prefix=" + name, "reload.channel=" + name, "reload.polling-interval=1s", patient,
	}
	address, _ := serveWith(t, settings...)
	atServer, atSource := []string{"--server", "http://" + address}, direct(t, settings).flags
	folder := t.TempDir()
	write(t, folder, "rules.yaml", ruleSet("api-limits", 2))
	write(t, folder, "overrides.csv", "rule,userId,times\na,ada,2\n")
	const document = `document "a": limitScope: must be one of GLOBAL`
	for _, c := range []struct {
		command string
		flags   []string
		says    string
	}{
		{"override set --rule a --caller userId=u --times 2", atServer, document},
		{`override set --rule a --caller userId=u --bands [{"capacity":2,"refill":"1h"}]`, atServer, "not found"},
		{"override delete --rule a --caller userId=u", atServer, document},
		{"override apply --yes -f FOLDER/overrides.csv", atServer, document},
		{"rules get api-limits", atServer, "not found"},
		{"rules get api-limits", atSource, document},
		{"rules get api-limits --revision 1", atSource, "not found"},
		{"rules history api-limits", atSource, "not found"},
		{"rules diff -f FOLDER/rules.yaml", atSource, document},
		{"rules delete --yes api-limits", atServer, "not found"},
		{"rules delete --yes api-limits", atSource, document},
		{"rules restore --yes api-limits 1", atServer, "not found"},
		{"rules restore --yes api-limits 1", atSource, "not found"},
		{"explain --user u", atServer, "no such rule set"},
		{"bucket reset --rule-set api-limits --rule a --yes", atServer, "not found"},
		{"simulate --rules FOLDER/rules.yaml --log ../../examples/simulate/access.log --against http://" + address, nil, "not found"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.command, "FOLDER", folder))
		if code, out, errs := call(t, append(args, c.flags...)...); code != exitError || !strings.Contains(errs, c.says) {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", c.command, code, out, errs)
		}
	}
}
