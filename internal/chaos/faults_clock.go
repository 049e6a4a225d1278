package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// clockFaults step the wall clock of Redis by an hour while buckets are used, with a
// library that is preloaded into redis-server, and back at the end. A step forward
// fills every bucket: one loss of state. A step back counts as no time passed. So
// either fault has one step forward.
func clockFaults() []Fault {
	return []Fault{
		stepping("clock of Redis steps forward an hour, and back", time.Hour),
		stepping("clock of Redis steps back an hour, and forward", -time.Hour),
	}
}

func stepping(name string, offset time.Duration) Fault {
	return Fault{Name: name, Losses: 1, Expect: Expect{Unnoticed: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{SteppedClock: true})
		return &Scene{
			Path:  StartGateway(tb, s.URI()),
			Begin: func(context.Context) error { return s.StepClock(offset) },
			End:   func(context.Context) error { return s.StepClock(0) },
		}
	}}
}
