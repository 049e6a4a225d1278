package upgrade_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
)

// A rule set with a field that the former version does not know is not read by it: it decides by
// its last good one, until it can read another.
func TestUpgrade_UnknownField(t *testing.T) {
	t.Parallel()
	before, current := programs(t)
	shared := testenv.StartStandalone(t, testenv.Config{})
	options, err := redis.ParseURL(shared.URI())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	source, err := redisrules.New(client, redisrules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	revision := int64(0)
	put := func(capacity int64, until time.Time) {
		t.Helper()
		set, err := rules.NewSet("upgrade", rules.Rule{ID: "all", Until: until, Bands: []rules.Band{rules.PerHour(capacity)}})
		if err == nil {
			revision, err = source.Put(t.Context(), set, rules.Change{Base: revision, Author: "test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(10, time.Time{})
	f := newFleet(t, shared.URI())
	f.settings = append(f.settings, "rules.file=", "rules.source=redis", "reload.polling-interval=1s")
	servers := []*server{f.start("former", before), f.start("current", current)}
	limit := func(s *server) int64 {
		var a struct{ Limit int64 }
		if err := f.post(t.Context(), s, "/v1/check", map[string]any{"path": "/", "peek": true}, &a); err != nil {
			t.Fatal(err)
		}
		return a.Limit
	}
	put(20, time.Now().Add(time.Hour))
	testenv.Eventually(t, "the current version has the rule that ends", func() bool { return limit(servers[1]) == 20 })
	if *former != "" {
		time.Sleep(3 * time.Second) // it reads the rule set meanwhile
		if n := limit(servers[0]); n != 10 {
			t.Errorf("the former version applies a limit of %d, and its last good rule set has 10", n)
		}
	}
	put(30, time.Time{})
	for _, s := range servers {
		testenv.Eventually(t, "both have the rule that does not end", func() bool { return limit(s) == 30 })
	}
}
