package scale_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
)

// limit is what the gateways share, in tokens a second. They ask for half as much again.
const (
	limit  = 20_000
	asking = 1.5 * limit
	// drained is when the capacity was spent: the bucket holds what a second gives.
	drained = 3 * time.Second
)

// utilisationFigures measure how much of what a bucket gives is admitted.
func utilisationFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	fleet, _ := openFleet(t, server.URI())
	even := slices.Repeat([]float64{asking / fleetSize}, fleetSize)
	skewed := slices.Repeat([]float64{asking * 0.1 / (fleetSize - 1)}, fleetSize)
	skewed[0] = asking * 0.9
	name := uint64(10)
	run := func(rates []float64, from, to time.Duration, stopped func(int, time.Duration) bool) float64 {
		return figure.Median(3, func() float64 {
			name++
			all := slices.Concat(paced(t, fleet, demand(t, name, rules.PerSecond(limit)), rates, to+100*time.Millisecond, stopped)...)
			n := 0
			for _, at := range all {
				if at >= from && at < to {
					n++
				}
			}
			used := 100 * float64(n) / (limit * (to - from).Seconds())
			t.Logf("%.2f %% of the tokens of %v", used, to-from)
			return used
		})
	}
	report.AtLeast("scale-utilisation-even", run(even, drained, drained+3*time.Second, nil), 99, " %")
	report.AtLeast("scale-utilisation-skewed", run(skewed, drained, drained+3*time.Second, nil), 95, " %")
	// The gateway that has the most requests dies, and the others have enough.
	busy := slices.Repeat([]float64{asking / (fleetSize - 1)}, fleetSize)
	killed := run(busy, drained+lease.Time, drained+2*lease.Time, func(gateway int, now time.Duration) bool {
		return gateway == 0 && now > drained
	})
	report.AtLeast("scale-killed-gateway-recovery", killed, 95, " %")
}
