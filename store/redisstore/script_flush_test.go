package redisstore

import (
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// flushScripts flushes the scripts of servers every 10 ms for a while, and
// returns how often.
func flushScripts(t *testing.T, while time.Duration, servers ...*testenv.Server) int {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for end := time.Now().Add(while); time.Now().Before(end); <-tick.C {
		var wg sync.WaitGroup
		for _, srv := range servers {
			wg.Go(func() {
				if _, err := srv.Do(t.Context(), "SCRIPT", "FLUSH"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		n++
	}
	return n
}

// Callers do not notice that servers lose their scripts.
func TestScript_Flush(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{}, srv)
	shared := tr.demand(ample)
	tr.mustTake(shared)
	before := tr.Scripts()

	crowd := tr.gather(crowdSize, time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	flushes := flushScripts(t, 5*time.Second, srv)
	crowd.stop()

	all, loads := crowd.all(), tr.Scripts()-before
	t.Logf("%d callers asked %d times during %d script flushes: %d errors, the script was loaded %d times, longest call %v",
		crowdSize, all.asked, flushes, all.failed, loads, all.longest.Round(time.Millisecond))
	all.unharmed(t)
	if loads > uint64(flushes) {
		t.Errorf("the script was loaded %d times for %d flushes", loads, flushes)
	}
	if loads < uint64(flushes)/4 {
		t.Errorf("the script was loaded %d times for %d flushes: the test has not tested much", loads, flushes)
	}
	if taken := tr.taken(shared); taken != all.admitted+1 {
		t.Errorf("%d calls were admitted and %d tokens taken", all.admitted+1, taken)
	}
}
