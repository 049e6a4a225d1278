package redisstore

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// Requests that their third rule rejects take nothing from the other two.
func TestTake_RejectionWritesNothing(t *testing.T) {
	const requests, callers = 10_000, 20
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Refresh: time.Hour, Uncounted: true}, srv) // no heartbeat, which is a write
	slow := func(n int64) []rules.Band {
		return []rules.Band{{Label: "hour", Capacity: n, RefillTokens: 1, Refill: time.Hour}}
	}
	set, err := rules.NewSet("api",
		rules.Rule{ID: "everyone", Priority: 3, Bands: slow(50_000)},
		rules.Rule{ID: "by-user", Priority: 2, Scope: rules.ScopeUser, Bands: slow(20_000)},
		rules.Rule{ID: "by-ip", Priority: 1, Scope: rules.ScopeIP, Bands: slow(1)},
	)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(tr.Store, fluxgate.Static(set), fluxgate.WithRuleSet("api"), fluxgate.WithOnFailure(rules.FailClosed))
	if err != nil {
		t.Fatal(err)
	}
	request := fluxgate.Request{IP: netip.MustParseAddr("192.0.2.1"), UserID: "u", Path: "/"}
	left := func() map[string]int64 {
		t.Helper()
		peek := request
		peek.Peek = true
		d, err := engine.Check(t.Context(), &peek)
		if err != nil {
			t.Fatal(err)
		}
		tokens := map[string]int64{}
		for b := range d.Bands() {
			tokens[b.Rule.ID] = b.Remaining
		}
		return tokens
	}
	// The first request passes, and empties the bucket of the third rule.
	if d, err := engine.Check(t.Context(), &request); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	before := left()
	if before["everyone"] != 49_999 || before["by-user"] != 19_999 || before["by-ip"] != 0 {
		t.Fatalf("after one request: %v", before)
	}
	writes := changes(t, srv)

	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for range requests / callers {
				own := request
				d, err := engine.Check(t.Context(), &own)
				if err != nil || d.Allowed || d.RuleID != "by-ip" {
					t.Errorf("%+v, %v: want a rejection by by-ip", d, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests rejected by their third rule in %v: %v before, %v after",
		requests, time.Since(start).Round(time.Millisecond), before, left())
	if after := left(); after["everyone"] != before["everyone"] || after["by-user"] != before["by-user"] {
		t.Errorf("the first two rules had %v and have %v", before, after)
	}
	// Not a token, not a timestamp, not a TTL: nothing was written.
	if after := changes(t, srv); after != writes {
		t.Errorf("the server counted %s changes before the rejections and %s after", writes, after)
	}
}

// changes is how often a server's data has changed.
func changes(t testing.TB, srv *testenv.Server) string {
	t.Helper()
	info, err := srv.Info(t.Context(), "persistence")
	if err != nil || info["rdb_changes_since_last_save"] == "" {
		t.Fatal(info, err)
	}
	return info["rdb_changes_since_last_save"]
}
