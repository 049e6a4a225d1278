package server

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// BenchmarkObserver is what it takes to count a decision, for metrics and for live numbers.
func BenchmarkObserver(b *testing.B) {
	perUser := func(id, path string, capacity int64) rules.Rule {
		return rules.Rule{
			ID: id, Paths: []string{path}, Scope: rules.ScopeUser,
			Bands: []rules.Band{{Capacity: capacity, RefillTokens: 1, Refill: 24 * time.Hour}},
		}
	}
	shadow := perUser("shadow", "/two", 1)
	shadow.Mode = rules.ModeShadow
	set, err := rules.NewSet("api", perUser("many", "/one", 1_000), perUser("few", "/limited", 1), perUser("more", "/two", 1_000),
		shadow, perUser("near", "/near", 4))
	if err != nil {
		b.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = buckets.Close() }()
	engine, err := fluxgate.New(buckets, fluxgate.Static(set), fluxgate.WithRuleSet("api"))
	if err != nil {
		b.Fatal(err)
	}
	for _, live := range []bool{true, false} {
		for _, path := range []string{"/one", "/limited", "/two", "/near", "/none"} {
			const users = 64
			var reqs [users]fluxgate.Request
			var decisions [users]fluxgate.Decision
			for i := range 4 * users {
				u := i % users
				reqs[u] = fluxgate.Request{Path: path, UserID: fmt.Sprint("user-", u)}
				if decisions[u], err = engine.Check(b.Context(), &reqs[u]); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("live=%t%s", live, path), func(b *testing.B) {
				o := testObserver(engine, live)
				b.ReportAllocs()
				ctx, i := context.Background(), 0
				for b.Loop() {
					o.Decided(ctx, &reqs[i%users], &decisions[i%users], nil)
					i++
				}
			})
		}
	}
}

func testObserver(engine *fluxgate.Engine, live bool) fluxgate.Observer {
	c := insight.RecorderConfig{RuleSet: "api"}
	if live {
		c.Engine = func() *fluxgate.Engine { return engine }
	}
	return observer{telemetry.New(telemetry.Config{RuleSet: "api", Recorder: insight.NewRecorder(c), Logger: slog.New(slog.DiscardHandler)})}
}
