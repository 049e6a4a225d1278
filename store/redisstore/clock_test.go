package redisstore

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// The clock of Redis decides from the first request on: when a month ends, and whether a rule
// has. That of the machine is a hundred days behind.
func TestNow_FirstRequest(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{SteppedClock: true})
	must(t, server.StepClock(100*24*time.Hour))
	s := openStore(t, server.URI(), Config{})
	set := fluxgate.Must(rules.NewSet("api",
		rules.Rule{
			ID: "plan", Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "month", Kind: rules.Quota, Capacity: 10, Period: "month"}},
		},
		rules.Rule{ID: "ended", Until: time.Now().Add(30 * 24 * time.Hour), Action: rules.ActionDeny, Paths: []string{"/closed"}}))
	engine := fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithRuleSet("api")))
	for i, user := range []string{"first", "second"} {
		d, err := engine.Check(t.Context(), &fluxgate.Request{Path: "/closed", UserID: user})
		if err != nil || !d.Allowed {
			t.Fatalf("request %d: %v, %v", i, d, err)
		}
		now := d.Time.UTC()
		if end, want := now.Add(d.ResetAfter), time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC); !end.Equal(want) {
			t.Errorf("the month of the %s user ends at %v, want %v", user, end, want)
		}
	}
}

// A server without requests learns of a clock that has stepped when it next reads the fleet state.
func TestNow_WithoutRequests(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{SteppedClock: true})
	s := openStore(t, server.URI(), Config{Refresh: 50 * time.Millisecond})
	must(t, server.StepClock(100*24*time.Hour))
	until(t, "the clock is that of Redis", func() bool { return time.Until(s.Now()) > 99*24*time.Hour })
}
