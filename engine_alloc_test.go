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
	for i := range 100 {
		rules = append(rules, fluxgate.Rule{
			ID: fmt.Sprint("d", i), Scope: fluxgate.ScopeComposite, KeyFields: []string{"descriptor", "descriptor:remote_address"},
			When:  fluxgate.When{Descriptor: []fluxgate.DescriptorMatch{{Key: "route", Value: fmt.Sprint(i)}, {Key: "remote_address", Except: []string{"127.*"}}}},
			Bands: []fluxgate.Band{fluxgate.PerSecond(1_000_000)},
		})
	}
	for _, c := range []struct {
		name string
		path string
		most float64
	}{
		{"one of many rules with a descriptor", "", 2},
		{"three rules of two bands", "/api/users/1", 2},
		{"no rule", "/health", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, rules)
			req := &fluxgate.Request{IP: here, Method: "GET", Path: c.path}
			if c.path == "" {
				req.Descriptor = []fluxgate.DescriptorEntry{{Key: "route", Value: "42"}, {Key: "remote_address", Value: "192.0.2.1"}}
			}
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
