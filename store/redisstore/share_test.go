package redisstore

import (
	"runtime"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Requests that become ready together share a call, also where none is in flight.
func TestQueue_ReadyTogether(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{}, srv)
	d := tr.demand(ample)
	tr.mustTake(d) // connects
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 50
	before := scriptCalls(t, srv)
	for range rounds {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if _, err := tr.take(d); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	// More than one for a round: a goroutine can be preempted.
	if calls := scriptCalls(t, srv) - before; calls > 2*rounds {
		t.Errorf("%d calls for %d times 16 requests", calls, rounds)
	}
}
