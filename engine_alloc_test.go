package fluxgate_test

import (
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// A decision makes at most the allocations listed here.
func TestCheck_Allocations(t *testing.T) {
	var rules []fluxgate.Rule
	for i := range 3 {
		rules = append(rules, fluxgate.Rule{
			ID: fmt.Sprint("r", i), Paths: []string{"/api/**"}, Scope: fluxgate.ScopeIP,
			Bands: []fluxgate.Band{fluxgate.PerSecond(1_000_000), fluxgate.PerMinute(10_000_000)},
		})
	}
	for _, c := range []struct {
		name string
		path string
		most float64
	}{
		{"three rules of two bands", "/api/users/1", 2},
		{"no rule", "/health", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, rules)
			req := &fluxgate.Request{IP: here, Method: "GET", Path: c.path}
			got := testing.AllocsPerRun(1_000, func() {
				if d, err := g.Check(t.Context(), req); err != nil || !d.Allowed {
					t.Fatalf("decided %+v, %v", answerOf(&d), err)
				}
			})
			if got > c.most {
				t.Errorf("%v allocations, want at most %v", got, c.most)
			}
		})
	}
}
