package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// inMemory are settings of a server of rules in a file, on free ports.
func inMemory(file string) []string {
	return []string{
		"--set", "redis.enabled=false", "--set", "mongo.enabled=false", "--set", "rules.file=" + file,
		"--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0",
	}
}

// The doctor sees a port that another process uses, and knows a server of ours.
func TestDoctor_PortInUse(t *testing.T) {
	const rules = "../../examples/rules.yaml"
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	_, ours := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+rules)
	for _, c := range []struct {
		addr string
		code int
		says string
	}{
		{stranger.Addr().String(), exitTrouble, "server.http: " + stranger.Addr().String() + " is in use by another process"},
		{ours, exitOK, "server.http: a fluxgate server is listening on " + ours},
		{"127.0.0.1:0", exitOK, "is free"},
		{"192.0.2.1:80", exitTrouble, "server.http: cannot listen on 192.0.2.1:80"},
	} {
		code, out, errs := call(t, append([]string{"doctor"}, append(inMemory(rules), "--set", "server.http="+c.addr)...)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d\n%s%s", c.addr, code, out, errs)
		}
	}
}

// A rules.file that is not there is an error of config check, and the doctor
// says what to do about it.
func TestDoctor_MissingRulesFile(t *testing.T) {
	missing := t.TempDir() + "/rules.yaml"
	if code, out, _ := call(t, append([]string{"doctor"}, inMemory(missing)...)...); code != exitTrouble || !strings.Contains(out, "write it, or correct rules.file") {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}
	code, out, errs := call(t, append([]string{"config", "check"}, inMemory(missing)...)...)
	if code != exitError || !strings.Contains(errs, "rules.file: ") || !strings.Contains(errs, "no such file") {
		t.Errorf("config check: exit code %d\n%s%s", code, out, errs)
	}
}

// Rules that say WAIT_FOR_REFILL do not wait where waiting is off.
func TestDoctor_WaitingIsOff(t *testing.T) {
	file := write(t, t.TempDir(), "rules.yaml", strings.Replace(ruleSet("api-limits", 2), "limitScope", "onLimitExceed: WAIT_FOR_REFILL\n    limitScope", 1))
	args := append([]string{"doctor"}, inMemory(file)...)
	const says = "WAIT_FOR_REFILL is off"
	if _, out, _ := call(t, args...); !strings.Contains(out, says) || !strings.Contains(out, "api-limits-rule") {
		t.Errorf("nothing about waiting:\n%s", out)
	}
	if _, out, _ := call(t, append(args, "--set", "wait-for-refill.enabled=true")...); strings.Contains(out, says) {
		t.Errorf("waiting is on:\n%s", out)
	}
}

// An edit of documents in MongoDB that servers refuse is reported, in the
// default rule set and in others.
func TestDoctor_RefusedEdit(t *testing.T) {
	database := "doctor-edit"
	uri := testenv.SharedMongo(t).URI()
	settings := []string{"--set", "redis.enabled=false", "--set", "mongo.uri=" + uri, "--set", "mongo.database=" + database, "--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0"}
	folder := t.TempDir()
	for _, id := range []string{"api-limits", "other"} {
		file := write(t, folder, id+".yaml", ruleSet(id, 2))
		if code, out, errs := call(t, append([]string{"rules", "apply", "--yes", "--direct", "-f", file}, settings...)...); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
	}
	if code, out, _ := call(t, append([]string{"doctor"}, settings...)...); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	for _, id := range []string{"api-limits", "other"} {
		_, err := client.Database(database).Collection("rate_limit_rules").UpdateOne(t.Context(),
			bson.D{{Key: "_id", Value: id + "-rule"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "bands.0.capacity", Value: "two"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := call(t, append([]string{"doctor"}, settings...)...)
	for _, says := range []string{`documents of rule set "api-limits"`, `documents of rule set "other"`, "must be a whole number"} {
		if code != exitTrouble || !strings.Contains(out, says) {
			t.Errorf("exit code %d, and nothing about %s\n%s", code, says, out)
		}
	}
}
