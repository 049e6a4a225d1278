package upgrade_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
)

// pair is a server of each version that have the rule source in common.
type pair struct {
	*fleet
	former, current *server
	revision        int64
}

// newPair starts the servers on a new Redis, which has rules.
func newPair(t *testing.T, settings ...string) *pair {
	before, now := programs(t)
	shared := testenv.StartStandalone(t, testenv.Config{})
	client := redis.NewClient(&redis.Options{Addr: shared.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	source, err := redisrules.New(client, redisrules.Config{})
	if err == nil {
		_, err = source.Put(t.Context(), ruleSet(t, 5, time.Time{}), rules.Change{Author: "test"})
	}
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, shared.URI())
	f.settings = append(append(f.settings, "rules.file="), settings...)
	p := &pair{fleet: f, former: f.start("former", before), revision: 1}
	p.current = f.start("current", now)
	return p
}

func (p *pair) operator(s *server) *admin.Client {
	p.t.Helper()
	c, err := admin.NewClient("http://"+s.admin, admin.ClientConfig{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ruleSet is one rule with a capacity that ends.
func ruleSet(t *testing.T, capacity int64, until time.Time) *rules.Set {
	t.Helper()
	rule := rules.Rule{ID: "all", Scope: rules.ScopeUser, Until: until, Bands: []rules.Band{rules.PerHour(capacity)}}
	set, err := rules.NewSet("upgrade", rule)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// put writes a rule with a capacity through the admin API of a server.
func (p *pair) put(s *server, capacity int64, until time.Time, force bool) error {
	change := rules.Change{Base: p.revision, Author: "test", Force: force}
	revision, err := p.operator(s).Put(p.t.Context(), ruleSet(p.t, capacity, until), change)
	if err == nil {
		p.revision = revision
	}
	return err
}

// limit returns the limit that a server applies.
func (p *pair) limit(s *server) int64 {
	var a struct{ Limit int64 }
	if err := p.post(p.t.Context(), s, "/v1/check", map[string]any{"userId": "ada", "path": "/", "peek": true}, &a); err != nil {
		p.t.Fatal(err)
	}
	return a.Limit
}

// take asks a server for tokens.
func (p *pair) take(s *server, cost int64) bool {
	var a answer
	if err := p.post(p.t.Context(), s, "/v1/check", map[string]any{"userId": "ada", "path": "/", "cost": cost}, &a); err != nil {
		p.t.Fatal(err)
	}
	return a.Allowed
}

// full reports whether a server sees a full bucket.
func (p *pair) full(s *server) bool {
	var a answer
	err := p.post(p.t.Context(), s, "/v1/check", map[string]any{"userId": "ada", "path": "/", "peek": true}, &a)
	return err == nil && len(a.Bands) == 1 && a.Bands[0].Remaining == 40
}

func (p *pair) reset(at *server) {
	p.t.Helper()
	if err := p.operator(at).Reset(p.t.Context(), admin.Reset{RuleSet: "upgrade", All: true}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) wantLimit(limit int64, of ...*server) {
	p.t.Helper()
	for _, s := range of {
		testenv.Eventually(p.t, "the limit of the "+s.version+" version", func() bool { return p.limit(s) == limit })
	}
}

// The rules, resets and reports of one version reach the other without waiting for a poll.
func TestUpgrade_Announcements(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rules.source=redis", "reload.polling-interval=1h")
	for i, s := range []*server{p.former, p.current, p.former, p.current} {
		capacity := int64(10 * (i + 1))
		if err := p.put(s, capacity, time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		p.wantLimit(capacity, p.former, p.current)
	}
	for _, s := range [][2]*server{{p.former, p.current}, {p.current, p.former}} {
		if !p.take(s[0], 40) || p.take(s[1], 1) {
			t.Fatalf("the %s version has not used up the limit of both", s[0].version)
		}
		p.reset(s[0])
		testenv.Eventually(t, "the other version sees the reset", func() bool { return p.take(s[1], 40) })
		p.reset(s[1])
		testenv.Eventually(t, "both see the next one", func() bool { return p.full(s[0]) && p.full(s[1]) })
	}
	for _, s := range []*server{p.former, p.current} {
		testenv.Eventually(t, "both are in the fleet of the "+s.version+" version", func() bool {
			var found admin.Fleet
			err := p.get(s, "/v1/fleet", &found)
			return err == nil && found.Problem == "" && len(found.Servers) == 2
		})
	}
}

// What the former version does not understand is not written while it runs, unless it is forced.
// It then decides by its last good rules until it can read others. Without a former version
// all is understood.
func TestUpgrade_NotUnderstood(t *testing.T) {
	t.Parallel()
	p := newPair(t, "rules.source=redis", "reload.polling-interval=1s")
	if err := p.put(p.current, 10, time.Time{}, false); err != nil {
		t.Fatal(err)
	}
	p.wantLimit(10, p.former, p.current)
	p.wantFleet()
	ends := time.Now().Add(time.Hour)
	_, err := p.operator(p.current).PutOverrides(t.Context(), "upgrade",
		[]rules.Override{{RuleID: "all", Identity: map[string]string{"userId": "acme"}, Times: 2_000}}, false)
	wantRefused(t, "overrides", err)
	wantRefused(t, "until", p.put(p.current, 20, ends, false))
	if err := p.put(p.current, 20, ends, true); err != nil {
		t.Fatal(err)
	}
	p.wantLimit(20, p.current)
	if *former != "" {
		time.Sleep(3 * time.Second) // it reads the rule set meanwhile
		p.wantLimit(10, p.former)
		p.wantDoctor("does not understand until")
	}
	if err := p.put(p.current, 30, time.Time{}, false); err != nil {
		t.Fatal(err)
	}
	p.wantLimit(30, p.former, p.current)
}

// wantFleet waits until the current version knows of the former one.
func (p *pair) wantFleet() {
	p.t.Helper()
	testenv.Eventually(p.t, "the current version knows the fleet", func() bool {
		var found admin.Fleet
		err := p.get(p.current, "/v1/fleet", &found)
		return err == nil && len(found.Servers) == 2
	})
}

// wantRefused checks that a change was refused because of a server that does not understand it.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if *former == "" && err == nil {
		return
	}
	var problem *admin.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusConflict || !strings.Contains(problem.Detail, "does not understand "+what) {
		t.Errorf("%s: %v, want a refusal that names the server", what, err)
	}
}

// Direct edits in MongoDB reach both versions, whichever of them reconciles. A field that the former
// does not know stays.
func TestUpgrade_DirectEdits(t *testing.T) {
	t.Parallel()
	database := testenv.StartMongo(t)
	client, err := mongo.Connect(options.Client().ApplyURI(database.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
	documents := client.Database("upgrade").Collection("rate_limit_rules")
	edit := func(change bson.D) {
		t.Helper()
		if _, err := documents.UpdateOne(t.Context(), bson.D{{Key: "id", Value: "all"}}, bson.D{{Key: "$set", Value: change}}); err != nil {
			t.Fatal(err)
		}
	}
	band := func(capacity int) bson.E {
		return bson.E{Key: "bands", Value: bson.A{bson.D{{Key: "capacity", Value: capacity}, {Key: "windowSeconds", Value: 3600}}}}
	}
	if _, err := documents.InsertOne(t.Context(), bson.D{
		{Key: "id", Value: "all"}, {Key: "ruleSetId", Value: "upgrade"}, {Key: "limitScope", Value: "USER_ID"}, band(10),
	}); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, "mongo.enabled=true", "mongo.uri="+database.URI(), "mongo.database=upgrade", "reload.polling-interval=1s")
	p.wantLimit(10, p.former, p.current)
	edit(bson.D{band(20)})
	p.wantLimit(20, p.former, p.current)
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	edit(bson.D{band(30), {Key: "until", Value: ends}})
	time.Sleep(3 * time.Second) // both have read it
	if err := p.former.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.wantLimit(30, p.current)
	v, err := p.operator(p.current).Load(t.Context(), "upgrade")
	if err != nil {
		t.Fatal(err)
	}
	if rule, _ := v.RuleSet.Rule("all"); !rule.Until.Equal(ends) {
		t.Errorf("the rule ends %v, and was edited to end %v", rule.Until, ends)
	}
}
