package bucketmath_test

import (
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// One bucket, decided by hand: what a store does for each key.
func Example() {
	band, err := rules.Band{Capacity: 2, RefillTokens: 1, Refill: time.Second}.Exact(0)
	if err != nil {
		panic(err)
	}
	demands := []store.Demand{{Bands: []store.ExactBand{band}, Cost: 1}}
	var state bucketmath.State
	now := int64(1_700_000_000_000_000) // microseconds of the store's clock
	for range 3 {
		var out store.Outcome
		out.Prepare(demands)
		d, result := &demands[0], &out.Results[0]
		var view bucketmath.View
		state.View(d.Bands, now, &view)
		bucketmath.Evaluate(d, &view, result)
		out.Decide(demands)
		if bucketmath.Take(d, &view, result) {
			state.Store(d.Bands, &view)
		}
		bucketmath.Report(d.Bands, &view, result)
		fmt.Println(result.Status, result.Bands[0].Remaining, "left, full after", result.Bands[0].FullAfter, "wait", result.Wait)
		now += 250_000
	}
	// Output:
	// ok 1 left, full after 1s wait 0s
	// ok 0 left, full after 1.75s wait 0s
	// rejected 0 left, full after 1.5s wait 500ms
}
