package server_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// newDatabase is a database of its own, and the URI that names it.
func newDatabase(t *testing.T) (*mongo.Database, string) {
	t.Helper()
	uri, err := url.Parse(testenv.SharedMongo(t).URI())
	if err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri.String()))
	if err != nil {
		t.Fatal(err)
	}
	db := client.Database("server-" + strings.ToLower(rand.Text()[:16]))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = db.Drop(ctx)
		_ = client.Disconnect(ctx)
	})
	uri.Path = "/" + db.Name()
	return db, uri.String()
}

// insertRule puts a document of the default rule set there by hand.
func insertRule(t *testing.T, db *mongo.Database, id string, bands any) {
	t.Helper()
	document := bson.D{{Key: "_id", Value: id}, {Key: "ruleSetId", Value: "api-limits"}, {Key: "limitScope", Value: "USER_ID"}, {Key: "bands", Value: bands}}
	if _, err := db.Collection("rate_limit_rules").InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
}

// oneBand is a list of one band that refills once an hour.
func oneBand(capacity int) bson.A {
	return bson.A{bson.D{{Key: "capacity", Value: capacity}, {Key: "refillSeconds", Value: 3600}}}
}

// The database that mongo.uri names is the one that is used, unless
// mongo.database names another.
func TestMongo_DatabaseOfTheURI(t *testing.T) {
	db, uri := newDatabase(t)
	insertRule(t, db, "of-the-uri", oneBand(41))
	other, _ := newDatabase(t)
	insertRule(t, other, "of-the-setting", oneBand(42))
	settings := []string{"redis.enabled=false", "mongo.enabled=true", "mongo.uri=" + uri}
	if d := start(t, settings...).check(t, "ada"); d["limit"] != 41.0 {
		t.Errorf("with a database in the URI: %v", d)
	}
	if d := start(t, append(settings, "mongo.database="+other.Name())...).check(t, "ada"); d["limit"] != 42.0 {
		t.Errorf("with mongo.database: %v", d)
	}
}

// When a change of rules takes the place of documents that were invalid, the
// server stops complaining at once.
func TestMongo_RepairByAPI(t *testing.T) {
	db, uri := newDatabase(t)
	insertRule(t, db, "bad", bson.A{bson.D{{Key: "capacity", Value: "two"}}})
	r, log := startLogged(t, "redis.enabled=false", "mongo.enabled=true", "mongo.uri="+uri)
	if h := r.Health(t.Context()); len(h.Rules.Sets) != 1 || !strings.Contains(h.Rules.Sets[0].Error, "capacity") {
		t.Fatalf("health does not say what is wrong: %+v\n%s", h.Rules, log.Lines(""))
	}
	if a := r.put(t, 7, "If-None-Match", "*"); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if h := r.Health(t.Context()); h.Status != "up" || h.Rules.Sets[0].Error != "" {
		t.Errorf("health after the repair: %+v", h.Rules)
	}
	if a := r.do(t, http.MethodGet, "/metrics", ""); !strings.Contains(a.body, `fluxgate_rules_error{rule_set="api-limits"} 0`) {
		t.Error("the metrics still say that there is an error")
	}
	if lines := log.Lines("cannot load it yet"); len(lines) != 0 {
		t.Errorf("the log still complains: %s", lines)
	}
	if d := r.check(t, "ada"); d["limit"] != 7.0 {
		t.Errorf("decision %v", d)
	}
}
