package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// A server runs with the configuration in the documents, on a real Redis and with
// rules in MongoDB. Only the addresses differ.
func TestDocs_SourceConfiguration(t *testing.T) {
	redis, mongo := testenv.StartStandalone(t, testenv.Config{}), testenv.StartMongo(t)
	c, err := config.Load(config.Sources{File: "config/testdata/documents.yaml", Set: []string{
		"redis.uri=" + redis.URI(), "redis.cluster-nodes=", "mongo.uri=" + mongo.URI(),
		"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "redis.timeout=5s",
	}})
	if err != nil {
		t.Fatal(err)
	}
	source, err := mongorules.Open(t.Context(), mongo.URI(), mongorules.Config{Database: c.Mongo.Database, Collection: c.Mongo.Collection})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	id := c.RateLimit.DefaultRuleSetID
	set := fluxgate.Must(rules.NewSet(id, rules.Rule{
		ID: "documents-rule", Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "hourly", Capacity: 7, Refill: time.Hour}},
	}))
	if _, err := source.Put(t.Context(), set, rules.Change{Author: "test"}); err != nil {
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
	if d := r.check(t, "ada"); d["limit"] != 7.0 || d["degraded"] != nil {
		t.Errorf("decision %v", d)
	}
	if a := r.do(t, http.MethodGet, "/v1/health", ""); !strings.Contains(a.body, `"kind": "mongo"`) || !strings.Contains(a.body, `"status": "up"`) {
		t.Errorf("health %s", a.body)
	}
}
