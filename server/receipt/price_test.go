package receipt_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// priced is a receipt of takes in several measures.
func priced(t testing.TB) *fluxgate.Receipt {
	t.Helper()
	r := sample(t)
	r.Takes = append(r.Takes, r.Takes[0])
	r.Prices = []*fluxgate.Price{
		{Measure: "usd", Weights: &rules.Weights{Input: 2_500_000, CachedInput: 1, Output: 10_000_000, Reasoning: math.MaxInt64}}, {Measure: "images"}, nil,
	}
	return r
}

// A receipt returns with the prices that it is settled by.
func TestPrice_RoundTrip(t *testing.T) {
	o, want := issuer(t, receipt.Config{}), priced(t)
	got, err := o.Redeem(t.Context(), o.Issue(want))
	if err != nil || !reflect.DeepEqual(got.Takes, want.Takes) || !reflect.DeepEqual(got.Prices, want.Prices) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
}

// A receipt of requests is the one that servers issue and read that know no other
// measure.
func TestPrice_None(t *testing.T) {
	// As such a server wrote it.
	before, err := hex.DecodeString("0200000000000000000000000000000000000001a1e2f9c9c401037365740472756c65010203000000000000000000000000000e0e03" +
		"f681f2818389850602a9989007c801c80180e0ba84bf038180800812128080809ec5a4e9098080f281838985068089ec828389850680d1bc8a83898506020a8089ec8283898506")
	if err != nil {
		t.Fatal(err)
	}
	bands := []store.ExactBand{
		fluxgate.Must(rules.Band{Label: "a", Capacity: 100, Refill: time.Minute}.Exact(0)),
		fluxgate.Must(rules.Band{Kind: rules.Quota, Capacity: 9, Period: "month"}.Exact(1)),
	}
	bands[1].Edges = [3]int64{1_700_000_000_000_000, 1_700_000_001_000_000, 1_700_000_009_000_000}
	r := &fluxgate.Receipt{Takes: []store.Taken{{
		Key: store.Key{RuleSet: "set", Rule: "rule", ID: store.KeyID{1, 2, 3}}, Bands: bands, Cost: 7, Asked: 7, Source: store.FromFallback,
		At: 1_700_000_000_000_123, Due: []int64{5, 1_700_000_001_000_000},
	}}}
	const issued = 1 + 16 // the version and the id, then when it was issued
	now := receipt.Encode(r)
	copy(now[issued:], before[issued:issued+8])
	if !bytes.Equal(now, before) {
		t.Errorf("a receipt of requests is\n%x, want\n%x", now, before)
	}
	if got, err := receipt.Decode(before); err != nil || !reflect.DeepEqual(got.Takes, r.Takes) {
		t.Errorf("%v\n%+v\n%+v", err, got, r)
	}
}

// A payload that ends early, or does not end, is refused, wherever that is.
func TestPrice_Truncated(t *testing.T) {
	payload := receipt.Encode(priced(t))
	for n := range payload {
		if r, err := receipt.Decode(payload[:n]); err == nil {
			t.Fatalf("%d of %d bytes are read as %+v", n, len(payload), r)
		}
	}
	if _, err := receipt.Decode(append(payload, 0)); err == nil {
		t.Error("a byte too much is accepted")
	}
}

// Costs of a receipt of a version without a bound are read as the largest, so that its slots can be
// released. Negative ones are refused.
func TestCodec_ExtremeCosts(t *testing.T) {
	bands := []store.ExactBand{fluxgate.Must(bucket.NewConcurrency(1, 10, time.Minute))}
	for cost, want := range map[int64]int64{7: 7, store.MaxCost: store.MaxCost, 1 << 60: store.MaxCost} {
		got, err := receipt.Decode(receipt.Encode(&fluxgate.Receipt{Takes: store.Takes{{Bands: bands, Cost: cost, Asked: cost}}}))
		if err != nil || got.Takes[0].Cost != want || got.Takes[0].Asked != want {
			t.Errorf("a cost of %d: %+v, error %v", cost, got, err)
		}
	}
	if _, err := receipt.Decode(receipt.Encode(&fluxgate.Receipt{Takes: store.Takes{{Bands: bands, Cost: -1, Asked: 1}}})); err == nil {
		t.Error("a negative cost is accepted")
	}
}
