package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// ruleFaults are faults of where the rules come from. Decisions go on with the rules
// that are loaded, health is degraded, and an edit after the fault is in effect.
func ruleFaults() []Fault {
	expect, gone := Expect{OtherHealth: true}, Expect{OtherHealth: true, LateHealth: true}
	return []Fault{
		onMongo("rule source (MongoDB) killed", gone, func(_ context.Context, m *testenv.Mongo) error { return m.Kill() },
			func(ctx context.Context, m *testenv.Mongo) error { return m.Restart(ctx) }),
		onMongo("rule source (MongoDB) frozen", gone, func(_ context.Context, m *testenv.Mongo) error { return m.Freeze() },
			func(_ context.Context, m *testenv.Mongo) error { return m.Thaw() }),
		onMongo("rule source (MongoDB) serving garbage", expect, insertGarbage, removeGarbage),
		garbageFile(),
		announcements("pub/sub connections cut, fifty times a second", Expect{Unnoticed: true},
			func(ctx context.Context, s *testenv.Server, _ *testenv.Proxy) (stop func() error) {
				return repeat(ctx, 20*time.Millisecond, func(ctx context.Context) error {
					_, err := s.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
					return err
				})
			}),
		announcements("pub/sub connection half-open", Expect{Either: true},
			func(_ context.Context, _ *testenv.Server, p *testenv.Proxy) (stop func() error) {
				p.Mute() // of all connections: those of decisions are replaced after a timeout
				return func() error { return nil }
			}),
	}
}

// polling shortens how often the source is read, so that a fault of 5 s is seen.
const polling = "reload.polling-interval=500ms"

// wholeLimit is for two servers of which callers use one.
const wholeLimit = "ratelimit.fallback-share=1"

// mongoRules starts a MongoDB with the rules of the suite.
func mongoRules(tb testing.TB) (m *testenv.Mongo, set []string) {
	tb.Helper()
	m = testenv.StartMongo(tb)
	set = []string{"mongo.uri=" + m.URI(), "mongo.database=chaos", polling}
	first := StartDaemon(tb, "", append(set, "redis.enabled=false", "ratelimit.missing-rule-behavior=ALLOW")...)
	if err := first.put(tb.Context(), ruleSet(tb)); err != nil {
		tb.Fatal(err)
	}
	if err := first.Kill(); err != nil {
		tb.Fatal(err)
	}
	return m, set
}

// onMongo is a fault of a MongoDB that holds the rules of a server.
func onMongo(name string, expect Expect, begin, end func(context.Context, *testenv.Mongo) error) Fault {
	return Fault{Name: name, Under: "server", Expect: expect, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		m, set := mongoRules(tb)
		d := StartDaemon(tb, "", append(set, "redis.uri="+s.URI())...)
		return &Scene{
			Path: d, Verify: d.verifyEdit(tb, d),
			Begin: func(ctx context.Context) error { return begin(ctx, m) },
			End:   func(ctx context.Context) error { return end(ctx, m) },
		}
	}}
}

// onDocuments calls f with the collection of the rules.
func onDocuments(m *testenv.Mongo, f func(*mongo.Collection) error) error {
	client, err := mongo.Connect(options.Client().ApplyURI(m.URI()))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	return f(client.Database("chaos").Collection("rate_limit_rules"))
}

// insertGarbage adds a document that is no rule.
func insertGarbage(ctx context.Context, m *testenv.Mongo) error {
	return onDocuments(m, func(c *mongo.Collection) error {
		_, err := c.InsertOne(ctx, bson.M{"_id": "garbage", "ruleSetId": ruleSetID, "enabled": true, "bands": bson.A{bson.M{"capacity": -1, "refillSeconds": "often"}}})
		return err
	})
}

func removeGarbage(ctx context.Context, m *testenv.Mongo) error {
	return onDocuments(m, func(c *mongo.Collection) error {
		_, err := c.DeleteOne(ctx, bson.M{"_id": "garbage"})
		return err
	})
}

// garbageFile replaces the file with the rules by something else.
func garbageFile() Fault {
	return Fault{Name: "rule source (file) serving garbage", Under: "server", Expect: Expect{OtherHealth: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		file := writeRules(tb)
		valid, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		d := StartDaemon(tb, "", "rules.file="+file, "mongo.enabled=false", "redis.uri="+s.URI(), polling)
		return &Scene{
			Path: d, Verify: d.verify,
			Begin: func(context.Context) error { return os.WriteFile(file, []byte("{\x00 garbage"), 0o600) },
			End:   func(context.Context) error { return os.WriteFile(file, valid, 0o600) },
		}
	}}
}

// announcements is a fault of the announcements of changed rules, which are in Redis.
// The source is not polled: only an announcement, or what a server reads when it
// subscribes again, makes the edit take effect.
func announcements(name string, expect Expect, begin func(context.Context, *testenv.Server, *testenv.Proxy) (stop func() error)) Fault {
	// Without a fault of the store decisions lose nothing; a muted connection makes
	// calls in flight time out.
	losses := 0
	if expect.Either {
		losses = oneLoss
	}
	return Fault{Name: name, Under: "server", Losses: losses, Expect: expect, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		p := testenv.StartProxy(tb, s.Addr())
		set := []string{"mongo.enabled=false", "reload.strategy=REDIS_PUBSUB", wholeLimit}
		editor := StartDaemon(tb, "", append(set, "redis.uri="+s.URI())...)
		if err := editor.put(tb.Context(), ruleSet(tb)); err != nil {
			tb.Fatal(err)
		}
		d := StartDaemon(tb, "", append(set, "redis.uri=redis://"+p.Addr())...)
		stop := func() error { return nil }
		return &Scene{
			Path: d, Verify: d.verifyEdit(tb, editor),
			Begin: func(ctx context.Context) error { stop = begin(ctx, s, p); return nil },
			End:   func(context.Context) error { return stop() },
		}
	}}
}

// put replaces the rules through the admin API of a server.
func (d *Daemon) put(ctx context.Context, set *rules.Set) error {
	operator, err := admin.NewClient("http://"+d.Admin, admin.ClientConfig{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = operator.Close() }()
	heads, err := operator.Revisions(ctx, []string{set.ID()})
	if err != nil {
		return err
	}
	_, err = operator.Put(ctx, set, rules.Change{Base: heads[set.ID()].Revision, Comment: "chaos"})
	return err
}

// editTimeout bounds how long an edit takes to be in effect.
const editTimeout = 15 * time.Second

// verifyEdit returns a check that an edit made at one server is in effect at d.
func (d *Daemon) verifyEdit(tb testing.TB, at *Daemon) func(context.Context) error {
	tb.Helper()
	edited := withDenial(tb)
	return func(ctx context.Context) error {
		if err := d.verify(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, editTimeout)
		defer cancel()
		// A refused edit may be what ends the state in which edits are refused: that of the
		// audit ends with the next record.
		if err := until(ctx, func() error { return at.put(ctx, edited) }); err != nil {
			return fmt.Errorf("an edit after the fault: %w", err)
		}
		if err := until(ctx, func() error { return d.denies(ctx) }); err != nil {
			return fmt.Errorf("an edit after the fault is not in effect: %w", err)
		}
		return nil
	}
}

// withDenial is the rule set of the suite, edited.
func withDenial(tb testing.TB) *rules.Set {
	tb.Helper()
	set, err := rules.NewSet(ruleSetID, append(slices.Collect(ruleSet(tb).Rules()), rules.Rule{ID: "edited", Paths: []string{"/edited"}, Action: rules.ActionDeny})...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// denies reports whether the edit is in effect.
func (d *Daemon) denies(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Addr+"/v1/check", strings.NewReader(`{"apiKey":"editor","path":"/edited"}`))
	if err != nil {
		return err
	}
	_, body, err := exchange(d.http, req)
	if err == nil && !strings.Contains(string(body), `"denied"`) {
		err = errors.New("the former rules are in effect")
	}
	return err
}
