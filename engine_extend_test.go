package fluxgate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// awayStore is a store that cannot be reached while away is set.
type awayStore struct {
	*memstore.Store
	away bool
}

func (s *awayStore) Extend(ctx context.Context, takes store.Takes) ([]bool, error) {
	if s.away {
		return nil, errAway
	}
	return s.Store.Extend(ctx, takes)
}

// A request holds slots of the store and of the fallback. One of them that is lost, or
// cannot be renewed, does not keep the other from being renewed.
func TestExtend_PartOfAReceipt(t *testing.T) {
	clock := storetest.NewClock()
	newStore := func() *memstore.Store { return fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now})) }
	buckets, fallback := &awayStore{Store: newStore()}, newStore()
	band := fluxgate.Must(rules.Band{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}.Exact(0))
	set := fluxgate.Must(rules.NewSet("api"))
	engine := fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set), fluxgate.WithFallback(fallback), fluxgate.WithFallbackShare(1)))
	demand := func(rule string) store.Demand {
		return store.Demand{
			Key: store.Key{RuleSet: "api", Rule: rule, ID: store.KeyID{rule[0]}}, Bands: []store.ExactBand{band}, Cost: 1,
			Holder: store.HolderID{byte(clock.Now().Unix()), 1},
		}
	}
	take := func(from store.Store, rule string) (out store.Outcome, d []store.Demand) {
		d = []store.Demand{demand(rule)}
		if err := from.Take(t.Context(), d, &out); err != nil {
			t.Fatal(err)
		}
		return out, d
	}
	for name, test := range map[string]struct {
		lose []store.Store
		away bool
		want error
		kept []store.Store
	}{
		"all held":                   {kept: []store.Store{buckets, fallback}},
		"lost in the store":          {lose: []store.Store{buckets}, want: fluxgate.ErrPartlyHeld, kept: []store.Store{fallback}},
		"lost in the fallback":       {lose: []store.Store{fallback}, want: fluxgate.ErrPartlyHeld, kept: []store.Store{buckets}},
		"all lost":                   {lose: []store.Store{buckets, fallback}, want: fluxgate.ErrNotHeld},
		"the store is away":          {away: true, want: errAway, kept: []store.Store{fallback}},
		"and the fallback's is lost": {lose: []store.Store{fallback}, away: true, want: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			clock.Advance(time.Hour)
			receipt := &fluxgate.Receipt{}
			for _, from := range []store.Store{buckets, fallback} {
				out, d := take(from, "slots")
				taken := store.NewTakes(d, &out)[0]
				if taken.Source = store.FromStore; from == store.Store(fallback) {
					taken.Source = store.FromFallback
				}
				receipt.Takes = append(receipt.Takes, taken)
			}
			for _, from := range test.lose {
				if _, err := from.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "api"}}); err != nil {
					t.Fatal(err)
				}
			}
			buckets.away = test.away
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
	slots := rules.Rule{ID: "slots", Paths: []string{"/slots"}, Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}}}
	g := newGate(t, []rules.Rule{rule("tokens", 0, 10), slots})
	held, tokens := g.check(fluxgate.Request{Path: "/slots"}), g.check(fluxgate.Request{Path: "/other"})
	elsewhere := &fluxgate.Receipt{Takes: []store.Taken{tokens.Receipt().Takes[0]}}
	elsewhere.Takes[0].Source = store.FromFallback
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
