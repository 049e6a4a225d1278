package scale_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// blockedFigures measure callers who ask again and again.
func blockedFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	fleet, strict := openFleet(t, server.URI())

	// Blocked for an hour, at every gateway.
	during := max(figure.For(5*time.Second), 2*time.Second) // in less, a stall leaves only the capacity
	before := calls(fleet)
	hammer(t, fleet, demand(t, 1, rules.PerHour(1)), during)
	perSecond := float64(calls(fleet)-before) / fleetSize / during.Seconds()
	report.AtMost("scale-blocked-calls", perSecond, 2, " a second and gateway")

	// Blocked for milliseconds: a token is asked for when it is there.
	one := fleet[:1]
	before = calls(one)
	leased := hammer(t, one, demand(t, 2, rules.PerSecond(30)), during)
	report.AtMost("scale-blocked-calls-per-token", float64(calls(one)-before)/float64(len(leased)), 2, "")

	late := lateness(leased, 30)
	control := lateness(hammer(t, strict[:1], demand(t, 3, rules.PerSecond(30)), during), 30)
	t.Logf("tokens were taken %.3f ms late, at most %.3f; %.3f and %.3f where each request asks the store",
		late[len(late)/2], late[len(late)-1], control[len(control)/2], control[len(control)-1])
	report.AtMost("scale-blocked-late-ms", late[len(late)*95/100], 2, " ms")
}

// hammer sends requests of a caller at each gateway without a break, and returns the
// moments at which the store admitted those of the first, in microseconds.
func hammer(t *testing.T, fleet []gateway, d store.Demand, during time.Duration) []int64 {
	t.Helper()
	takers := newTakers(fleet, len(fleet), d)
	var admitted []int64
	for start := time.Now(); time.Since(start) < during; time.Sleep(50 * time.Microsecond) {
		for i := range takers {
			ok, err := takers[i].take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ok && i == 0 {
				admitted = append(admitted, takers[i].out.Results[0].Now)
			}
		}
	}
	return admitted
}

// lateness is how long after they were due tokens were taken from a bucket that was
// full, in milliseconds, in order.
func lateness(admitted []int64, perSecond int) []float64 {
	var late []float64
	for k := perSecond; k < len(admitted); k++ {
		due := float64(admitted[0]) + float64(k-perSecond+1)*1e6/float64(perSecond)
		late = append(late, (float64(admitted[k])-due)/1000)
	}
	slices.Sort(late)
	return late
}
