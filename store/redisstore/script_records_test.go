package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// sixteen are the most bands of a bucket set.
func sixteen(capacity int64, period time.Duration) (bands []store.ExactBand) {
	for id := range uint32(bucket.MaxBands) {
		bands = append(bands, fluxgate.Must(bucket.NewBand(id, capacity, 1, period)))
	}
	return bands
}

// Sixteen bands that all change while requests wait stay readable, and each of them keeps the
// state of its former numbers for gateways that have these.
func TestScript_SixteenBandsChangeWhileRequestsWait(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{}))
	d := p.demand("rule", 10)
	d.Bands = sixteen(100, time.Hour)
	p.take(d)
	d.Bands, d.Cost, d.MaxWait = sixteen(2, time.Second), 1, time.Minute
	for i := range 4 {
		out := p.take(d)
		if !out.Admitted() {
			t.Fatalf("request %d under the new numbers: %+v", i, out.Results[0])
		}
		// The bands carried over a tenth, so the second token is due later.
		stored, err := newScriptClient(t, testenv.SharedStandalone(t)).Get(t.Context(), p.name(d)).Result()
		must(t, err)
		var state bucket.State
		if ok := decode(&state, stored); !ok || len(state.Slots) != 2*bucket.MaxBands {
			t.Errorf("after request %d: read %t, %d records", i, ok, len(state.Slots))
		}
		if i > 1 && state.Hold == 0 {
			t.Error("no request waits")
		}
	}
	d.Bands, d.MaxWait = sixteen(100, time.Hour), 0 // a gateway that still has the former numbers
	if out := p.take(d); out.Results[0].Status == store.Unavailable {
		t.Errorf("under the former numbers: %+v", out.Results[0])
	}
}

// The most records, and how long requests wait, are read to take and to charge.
func TestScript_MostRecordsWhileRequestsWait(t *testing.T) {
	client := newScriptClient(t, testenv.SharedStandalone(t))
	for _, actual := range []int64{-1, 3} { // a take, and a charge under a label without a record
		key := fmt.Sprint("fluxgate:{records}:", t.Name(), actual)
		state := bucket.State{At: takenAt, Hold: 1_000_000}
		for id := range uint32(2 * bucket.MaxBands) {
			state.Slots = append(state.Slots, bucket.Slot{ID: 100 + id, Used: 1_000, Limit: 1_000_000, Rate: 1})
			if id >= bucket.MaxBands {
				state.Slots[id].Since = takenAt
			}
		}
		must(t, client.Set(t.Context(), key, encodeValue(&state), 0).Err())
		bands := []store.ExactBand{fluxgate.Must(bucket.NewBand(1, 100, 1, time.Hour))}
		request := newShardRequest(opTake, 0, time.Time{})
		if actual >= 0 {
			request.op, request.actual = opSettle, []int64{actual}
			request.takes = store.Takes{{Bands: bands, Cost: 1, At: takenAt}}
		} else {
			request.demands = []store.Demand{{Bands: bands, Cost: 1}}
		}
		request.keys = []string{key}
		if _, err := client.decide(takenAt, request); err != nil {
			t.Fatal(err)
		}
		if actual >= 0 {
			state.Settle(bands, bucket.Booking{Cost: 1, At: takenAt}, actual, takenAt)
		} else {
			var v bucket.View
			state.View(bands, takenAt, &v)
			v.Take(bands, 1)
			state.Store(bands, &v)
		}
		if got, want := client.Get(t.Context(), key).Val(), string(encodeValue(&state)); got != want {
			t.Errorf("settled at %d: %x in Lua, %x in Go", actual, got, want)
		}
		if request.unreadable {
			t.Error("the value cannot be read")
		}
	}
}
