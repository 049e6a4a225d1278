package fluxgate_test

import (
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// A decision makes at most the allocations listed here. The race detector drops pooled values.
func TestCheck_Allocations_NoRace(t *testing.T) {
	var list []rules.Rule
	for i := range 3 {
		list = append(list, rules.Rule{
			ID: fmt.Sprint("r", i), Paths: []string{"/api/**"}, Scope: rules.ScopeIP,
			Bands: []rules.Band{rules.PerSecond(1_000_000), rules.PerMinute(10_000_000)},
		})
	}
	for i := range 100 {
		list = append(list, rules.Rule{
			ID: fmt.Sprint("d", i), Scope: rules.ScopeComposite, KeyFields: []string{"descriptor", "descriptor:remote_address"},
			When:  rules.When{Descriptor: []rules.DescriptorMatch{{Key: "route", Value: fmt.Sprint(i)}, {Key: "remote_address", Except: []string{"127.*"}}}},
			Bands: []rules.Band{rules.PerSecond(1_000_000)},
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
			g := newGate(t, list)
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
