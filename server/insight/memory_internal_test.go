package insight

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
)

// The memory of a recorder is bounded, however many rules and callers there are.
func TestRecorder_Memory_NoRace(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	r := NewRecorder(RecorderConfig{Engine: func() *fluxgate.Engine { return nil }})
	for i := range 2 * maxRules {
		of := r.rule("api", fmt.Sprint("rule-", i))
		r.ruleSetOf(fmt.Sprint("set-", i), meter.OutcomeOf(&fluxgate.Decision{Reason: fluxgate.ReasonOK}, nil))
		for _, list := range []*callerList{&of.limited, &of.allowed} {
			for range 2 {
				for n := range uint64(600) {
					id := keyOf(n)
					list.current.add(&id, &r.extra)
				}
				list.rotate(&r.extra)
			}
		}
	}
	used := heap() - before
	t.Logf("%d MB", used>>20)
	if used > 30<<20 || r.extra.left.Load() < 0 {
		t.Errorf("%d bytes, %d callers of the budget are left", used, r.extra.left.Load())
	}
	runtime.KeepAlive(r)
}
