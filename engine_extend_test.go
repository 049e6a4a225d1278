package fluxgate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// awayStore is a store that cannot be reached while away is set.
type awayStore struct {
	*memstore.Store
	away bool
}

func (s *awayStore) Extend(ctx context.Context, receipt *fluxgate.Receipt) ([]bool, error) {
	if s.away {
		return nil, errAway
	}
	return s.Store.Extend(ctx, receipt)
}

// A request holds slots of the store and of the fallback. One of them that is lost, or
// cannot be renewed, does not keep the other from being renewed.
func TestExtend_PartOfAReceipt(t *testing.T) {
	clock := storetest.NewClock()
	newStore := func() *memstore.Store { return fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now})) }
	store, fallback := &awayStore{Store: newStore()}, newStore()
	band := fluxgate.Must(fluxgate.Band{Kind: fluxgate.Concurrency, Capacity: 1, Hold: time.Minute}.Exact(0))
	set := fluxgate.Must(fluxgate.NewRuleSet("api"))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithFallback(fallback, 1)))
	demand := func(rule string) fluxgate.Demand {
		return fluxgate.Demand{
			Key: fluxgate.Key{RuleSet: "api", Rule: rule, ID: fluxgate.KeyID{rule[0]}}, Bands: []fluxgate.ExactBand{band}, Cost: 1,
			Holder: fluxgate.HolderID{byte(clock.Now().Unix()), 1},
		}
	}
	take := func(from fluxgate.Store, rule string) (out fluxgate.Outcome, d []fluxgate.Demand) {
		d = []fluxgate.Demand{demand(rule)}
		if err := from.Take(t.Context(), d, &out); err != nil {
			t.Fatal(err)
		}
		return out, d
	}
	for name, test := range map[string]struct {
		lose []fluxgate.Store
		away bool
		want error
		kept []fluxgate.Store
	}{
		"all held":                   {kept: []fluxgate.Store{store, fallback}},
		"lost in the store":          {lose: []fluxgate.Store{store}, want: fluxgate.ErrPartlyHeld, kept: []fluxgate.Store{fallback}},
		"lost in the fallback":       {lose: []fluxgate.Store{fallback}, want: fluxgate.ErrPartlyHeld, kept: []fluxgate.Store{store}},
		"all lost":                   {lose: []fluxgate.Store{store, fallback}, want: fluxgate.ErrNotHeld},
		"the store is away":          {away: true, want: errAway, kept: []fluxgate.Store{fallback}},
		"and the fallback's is lost": {lose: []fluxgate.Store{fallback}, away: true, want: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			clock.Advance(time.Hour)
			receipt := &fluxgate.Receipt{}
			for _, from := range []fluxgate.Store{store, fallback} {
				out, d := take(from, "slots")
				taken := fluxgate.NewReceipt(d, &out).Takes[0]
				if taken.Source = fluxgate.FromStore; from == fluxgate.Store(fallback) {
					taken.Source = fluxgate.FromFallback
				}
				receipt.Takes = append(receipt.Takes, taken)
			}
			for _, from := range test.lose {
				if err := from.Reset(t.Context(), fluxgate.Key{RuleSet: "api"}); err != nil {
					t.Fatal(err)
				}
			}
			store.away = test.away
			clock.Advance(50 * time.Second)
			err := engine.Extend(t.Context(), receipt)
			if !errors.Is(err, test.want) || errors.Is(err, fluxgate.ErrPartlyHeld) && !errors.Is(test.want, fluxgate.ErrPartlyHeld) {
				t.Errorf("%v, want %v", err, test.want)
			}
			clock.Advance(50 * time.Second)
			for _, from := range test.kept {
				if out, _ := take(from, "slots"); out.Admitted() {
					t.Error("a slot that was held was not renewed")
				}
			}
		})
	}
}

// An engine without a fallback renews the slots of a receipt, and nothing else.
func TestExtend_WithoutFallback(t *testing.T) {
	slots := fluxgate.Rule{ID: "slots", Paths: []string{"/slots"}, Bands: []fluxgate.Band{{Kind: fluxgate.Concurrency, Capacity: 1, Hold: time.Minute}}}
	g := newGate(t, []fluxgate.Rule{rule("tokens", 0, 10), slots})
	held, tokens := g.check(fluxgate.Request{Path: "/slots"}), g.check(fluxgate.Request{Path: "/other"})
	elsewhere := &fluxgate.Receipt{Takes: []fluxgate.Taken{tokens.Receipt().Takes[0]}}
	elsewhere.Takes[0].Source = fluxgate.FromFallback
	for name, c := range map[string]struct {
		receipt *fluxgate.Receipt
		want    error
	}{
		"slots beside tokens":    {held.Receipt(), nil},
		"tokens":                 {tokens.Receipt(), fluxgate.ErrNotHeld},
		"tokens from a fallback": {elsewhere, fluxgate.ErrReceipt},
	} {
		if err := g.Extend(t.Context(), c.receipt); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
