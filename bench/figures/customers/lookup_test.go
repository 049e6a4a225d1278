package customers_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// engineFor is an engine over rules in memory, with an override of each customer if it is asked for.
func engineFor(t testing.TB, set *rules.Set, overridden, ends bool) *fluxgate.Engine {
	t.Helper()
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	t.Cleanup(func() { _ = store.Close() })
	options := []fluxgate.Option{fluxgate.WithRuleSet(set.ID())}
	if overridden {
		table := fluxgate.NewOverrides(store, 0)
		all := overrides(0, customers(), 0)
		for i := range all {
			if !ends {
				all[i].Until = time.Time{}
			}
		}
		table.Apply(fluxgate.Must(fluxgate.Compile(set)), all)
		options = append(options, fluxgate.WithOverrides(table))
	}
	return fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), options...))
}

// decide checks requests of customers in turn.
func decide(t testing.TB, engine *fluxgate.Engine, users []string) func(n int) {
	t.Helper()
	next, req := 0, fluxgate.Request{Method: "GET", Path: "/orders"}
	return func(n int) {
		for range n {
			req.UserID = users[next%len(users)]
			next++
			if d, err := engine.Check(t.Context(), &req); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
	}
}

// some are customers of all, in no order.
func some(n int) []string {
	users := make([]string, n)
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(customers())[:n] {
		users[i] = customer(at)
	}
	return users
}

// lookup compares decisions for customers with an override with the same decisions without
// overrides, in turns. The more customers are active, the more of it are misses of the
// processor's caches.
func lookup(t *testing.T, report *figure.Report) {
	t.Helper()
	set := standard(t)
	with, ending, without := engineFor(t, set, true, false), engineFor(t, set, true, true), engineFor(t, set, false, false)
	added := func(with *fluxgate.Engine, active int) (ns, allocs float64) {
		subject, control := decide(t, with, some(active)), decide(t, without, some(active))
		subject(active)
		control(active)
		return addedBy(subject, control), testing.AllocsPerRun(10_000, func() { subject(1) }) - testing.AllocsPerRun(10_000, func() { control(1) })
	}
	for _, active := range []int{1, 1_000, customers()} {
		ns, _ := added(with, active)
		t.Logf("%d customers in turn: %.0f ns", active, ns)
	}
	ns, allocs := added(with, 100)
	report.AtMost("customers-lookup-ns", ns, 60, " ns")
	later, _ := added(ending, 100)
	report.Print("customers-lookup-with-an-end-ns", later, " ns") // reads the clock
	report.AtMost("customers-lookup-allocs", allocs, 0, " allocs/op")
}

// addedBy is how much longer a decision of the subject takes than one of the control, in
// nanoseconds: the median over turns, which are so long that each has its data in the
// processor's caches for most of it.
func addedBy(subject, control func(n int)) float64 {
	var added []float64
	for range figure.Rounds(401) {
		added = append(added, perOperation(subject)-perOperation(control))
	}
	return figure.MedianOf(added)
}

// perOperation is the time of a decision in nanoseconds.
func perOperation(f func(n int)) float64 {
	const n = 5_000
	start := time.Now()
	f(n)
	return float64(time.Since(start)) / n
}

// memory is what overrides take in a gateway.
func memory(t *testing.T, report *figure.Report) {
	t.Helper()
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	t.Cleanup(func() { _ = store.Close() })
	set := fluxgate.Must(fluxgate.Compile(standard(t)))
	before := heap()
	table := fluxgate.NewOverrides(store, 0)
	table.Apply(set, overrides(0, customers(), 0))
	report.AtMost("customers-memory-mb", float64(heap()-before)/1e6, 25, " MB")
	if table.Len() != customers() {
		t.Fatal(table.Len())
	}
}

// heap is the memory in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
