package server_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// A server runs with the configuration and the rule document in the source documents, on a
// real Redis and MongoDB, and answers their clients. Only the addresses differ.
func TestDocs_SourceConfiguration(t *testing.T) {
	redis, database := testenv.StartStandalone(t, testenv.Config{}), testenv.StartMongo(t)
	c, err := config.Load(config.Sources{File: "config/testdata/documents.yaml", Set: []string{
		"redis.uri=" + redis.URI(), "redis.cluster-nodes=", "mongo.uri=" + database.URI(),
		"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "redis.timeout=5s",
	}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("config/testdata/documents-rule.json")
	if err != nil {
		t.Fatal(err)
	}
	var document bson.M
	if err := bson.UnmarshalExtJSON(text, false, &document); err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(database.URI()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	if _, err := client.Database(c.Mongo.Database).Collection(c.Mongo.Collection).InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	app, err := server.New(t.Context(), c, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := &running{App: app, url: "http://" + app.Addr("http"), client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}}
	defer r.client.CloseIdleConnections()
	const request = `{"ruleSetId":"api-limits","clientIp":"192.0.2.7","endpoint":"/api/users/7","method":"GET"}`
	const want = `{"allowed":true,"remaining":99,"retryAfterMs":0}`
	if a := r.do(t, http.MethodPost, "/api/ratelimit/check", request); a.body != want {
		t.Errorf("the answer is %s, want %s", a.body, want)
	}
	if a := r.do(t, http.MethodGet, "/v1/health", ""); !strings.Contains(a.body, `"kind": "mongo"`) || !strings.Contains(a.body, `"status": "up"`) {
		t.Errorf("health %s", a.body)
	}
}
