package fluxgate_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// apiKeyServers are servers over one store, with an override for the API key of acme.
type apiKeyServers struct {
	testing.TB
	shared *memstore.Store
	set    *rules.Set
}

const acme = "the-key-of-acme-0123456789"

func newAPIKeyServers(t testing.TB, bands ...rules.Band) *apiKeyServers {
	t.Helper()
	return &apiKeyServers{t, newStore(t, nil), ruleSet(t, rules.Rule{ID: "r", Scope: rules.ScopeAPIKey, Bands: bands})}
}

// server returns a server with the overrides, and its view of the store. Its fallback has half
// of each limit.
func (s *apiKeyServers) server(overrides ...rules.Override) (*fluxgate.Engine, *faulty) {
	s.Helper()
	view := &faulty{Store: s.shared}
	known := fluxgate.NewOverrides(view, 0)
	for i := range overrides {
		if err := known.Check(s.set, &overrides[i]); err != nil {
			s.Fatal(err)
		}
	}
	known.Apply(compile(s.set), overrides)
	return newEngine(s, view, s.set, fluxgate.WithOverrides(known), fluxgate.WithFallback(newStore(s, nil)), fluxgate.WithFallbackShare(0.5)), view
}

func timesOf(apiKey string, times rules.Times) rules.Override {
	return rules.Override{RuleSetID: "api", RuleID: "r", Identity: map[string]string{"apiKey": apiKey}, Times: times}
}

// A server that has not seen an API key settles its receipts under the numbers of the key.
func TestSettle_OverrideOfUnseenAPIKey(t *testing.T) {
	times10, times20 := timesOf(acme, 10_000), timesOf("another-key-0123456789", 20_000)
	small := timesOf("a-third-key-0123456789", 500)
	month := rules.Band{Label: "month", Kind: rules.Quota, Capacity: 100, Period: "month", WarnAt: rules.Percents{80}}
	t.Run("warnings", func(t *testing.T) {
		for _, c := range []struct {
			name           string
			key            string
			cost, actual   int64
			first, second  []rules.Override
			used, capacity int64 // of the warning, 0 for none
		}{
			{"below the threshold of the override", acme, 90, 95, []rules.Override{times10}, []rules.Override{times10, times20}, 0, 0},
			{"above it", acme, 700, 950, []rules.Override{times10}, []rules.Override{times10, times20}, 950, 1_000},
			{"of a caller without one", "plain", 10, 95, []rules.Override{times10}, []rules.Override{times10, times20}, 95, 100},
			{"numbers that no caller has now", acme, 700, 950, []rules.Override{times10}, []rules.Override{times20}, 0, 0},
			{"no overrides", "plain", 10, 95, nil, nil, 95, 100},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newAPIKeyServers(t, month)
				first, _ := s.server(c.first...)
				second, _ := s.server(c.second...)
				d := check(t, first, fluxgate.Request{APIKey: c.key, Cost: c.cost})
				if _, err := second.Settle(t.Context(), d.Receipt(), c.actual); err != nil {
					t.Fatal(err)
				}
				first.WaitWarnings()
				second.WaitWarnings()
				pending, err := s.shared.PendingWarnings(t.Context(), "", 10)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case c.capacity == 0 && len(pending) > 0:
					t.Errorf("a warning that %d of %d are used", pending[0].Used, pending[0].Capacity)
				case c.capacity > 0 && (len(pending) != 1 || pending[0].Used != c.used || pending[0].Capacity != c.capacity):
					t.Errorf("warnings %+v, want %d of %d", pending, c.used, c.capacity)
				}
			})
		}
	})
	t.Run("charges of receipts of a fallback", func(t *testing.T) {
		for _, c := range []struct {
			name         string
			band         rules.Band
			key          string
			second       []rules.Override
			charged      int64
			lost         int64
			left, before int64
		}{
			{"an override", perHour("hour", 100), acme, []rules.Override{times10, small}, 40, 0, 959, 1_000},
			{"no override", perHour("hour", 100), "plain", []rules.Override{times10, small}, 40, 0, 59, 100},
			{"numbers that no caller has now", perHour("hour", 100), acme, []rules.Override{times20}, 0, 1, 999, 1_000},
			{"a quota", rules.Band{Label: "month", Kind: rules.Quota, Capacity: 100, Period: "month"}, acme, []rules.Override{times20}, 40, 0, 959, 1_000},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newAPIKeyServers(t, c.band)
				first, away := s.server(times10, small)
				second, _ := s.server(c.second...)
				req := fluxgate.Request{APIKey: c.key, Cost: 1}
				_ = check(t, first, req)
				away.setFails(store.ErrNotSent)
				req.Cost = 10
				d := check(t, first, req)
				if d.Source != store.FromFallback || d.Limit != c.before/2 {
					t.Fatalf("decided by %v with a limit of %d", d.Source, d.Limit)
				}
				settled, err := second.Settle(t.Context(), d.Receipt(), 50)
				stats := second.FallbackStats()
				if err != nil || settled.Charged != c.charged || stats.LostSettlements != c.lost {
					t.Errorf("charged %d, %d lost, %v; want %d, %d", settled.Charged, stats.LostSettlements, err, c.charged, c.lost)
				}
				third, _ := s.server(times10, small)
				if got := left(t, third, fluxgate.Request{APIKey: c.key})["r."+c.band.Label]; got != c.left {
					t.Errorf("%d of %d are left, want %d", got, c.before, c.left)
				}
			})
		}
	})
}
