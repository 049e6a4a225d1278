package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

// An edit of a document with the MongoDB driver is in effect on three servers
// within one polling interval and a second, under every strategy. An invalid
// one is named by the health and the log of every server, and by doctor, within
// the same time.
func TestMongoEdit_ThreeServers(t *testing.T) {
	const interval = 2 * time.Second
	redis, database := testenv.StartStandalone(t, testenv.Config{}), testenv.StartMongo(t)
	client, err := mongo.Connect(options.Client().ApplyURI(database.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	for _, strategy := range []string{"POLLING", "REDIS_PUBSUB", "AUTO"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			name := "edit-" + strings.ToLower(strategy)
			source, err := mongorules.New(t.Context(), client.Database(name), mongorules.Config{})
			if err != nil {
				t.Fatal(err)
			}
			set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{
				ID: "everyone", Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "hourly", Capacity: 7, Refill: time.Hour}},
			}))
			if _, err := source.Put(t.Context(), set, rules.Change{Author: "test"}); err != nil {
				t.Fatal(err)
			}
			settings := []string{
				"redis.uri=" + redis.URI(), "redis.timeout=5s", "mongo.enabled=true", "mongo.uri=" + database.URI(), "mongo.database=" + name,
				"reload.strategy=" + strategy, "reload.polling-interval=" + interval.String(), "reload.jitter=50ms",
			}
			stalls := testenv.WatchStalls(t)
			servers, logs := make([]*running, 3), make([]*testenv.LogBuffer, 3)
			for i := range servers {
				servers[i], logs[i] = startLogged(t, settings...)
			}
			documents := client.Database(name).Collection("rate_limit_rules")
			edit := func(capacity int) time.Time {
				t.Helper()
				time.Sleep(rand.N(interval)) // at any moment between two looks
				change := bson.D{{Key: "$set", Value: bson.D{{Key: "bands.0.capacity", Value: capacity}}}}
				if r, err := documents.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "everyone"}}, change); err != nil || r.ModifiedCount != 1 {
					t.Fatal(r, err)
				}
				return time.Now()
			}
			within := func(what string, began time.Time, ok func() bool) {
				t.Helper()
				testenv.Eventually(t, what, ok)
				took := stalls.Since(began)
				t.Logf("%s after %v", what, took.Round(time.Millisecond))
				if took > interval+time.Second {
					t.Errorf("%s after %v, more than the polling interval and a second", what, took)
				}
			}
			for _, capacity := range []int{11, 12, 13} {
				began := edit(capacity)
				within(fmt.Sprintf("all servers have a capacity of %d", capacity), began, func() bool {
					for _, s := range servers {
						if s.check(t, "ada")["limit"] != float64(capacity) {
							return false
						}
					}
					return true
				})
			}
			const named = `document "everyone": bands[0].capacity: must be at least 1`
			began := edit(-1)
			within("health names the document", began, func() bool {
				for _, s := range servers {
					health := s.do(t, http.MethodGet, "/v1/health", "").body
					if !strings.Contains(strings.ReplaceAll(health, `\"`, `"`), named) {
						return false
					}
				}
				return true
			})
			for i, log := range logs {
				testenv.Eventually(t, "the log says so", func() bool { return len(log.Lines("cannot import an edit")) > 0 })
				if lines := log.Lines("cannot import an edit"); len(lines) != 1 || !strings.Contains(strings.ReplaceAll(lines[0], `\`, ""), named) {
					t.Errorf("server %d logs %q", i, lines)
				}
				if limit := servers[i].check(t, "ada")["limit"]; limit != 13.0 {
					t.Errorf("the limit of server %d has become %v", i, limit)
				}
			}
			c, err := config.Load(config.Sources{Set: append(settings, "server.http=127.0.0.1:0", "server.admin=127.0.0.1:0")})
			if err != nil {
				t.Fatal(err)
			}
			if !doctorNames(doctor.Diagnose(t.Context(), c), named) {
				t.Errorf("doctor does not name the document: %+v", doctor.Diagnose(t.Context(), c))
			}
			if took := stalls.Since(began); took > interval+time.Second {
				t.Errorf("doctor and log were looked at %v after the edit", took)
			}
			began = edit(14)
			within("the repair is in effect", began, func() bool {
				for _, s := range servers {
					health := s.do(t, http.MethodGet, "/v1/health", "").body
					if s.check(t, "ada")["limit"] != 14.0 || strings.Contains(health, "must be at least 1") {
						return false
					}
				}
				return true
			})
		})
	}
}

func doctorNames(findings []doctor.Finding, text string) bool {
	for _, f := range findings {
		if strings.Contains(fmt.Sprint(f), text) {
			return true
		}
	}
	return false
}
