package linearizability

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

var (
	histories = flag.Int("histories", 25, "histories of 200 operations on each topology")
	seed      = flag.Uint64("seed", 1, "the first history's limits and operations; the order in which they happen is the machine's")
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestRedis_Standalone(t *testing.T) {
	checkRedis(t, testenv.SharedStandalone(t).URI(), atomicity{takes: true, settlements: true})
}

// In a cluster, takes from several slots are not atomic: takes are from one bucket set.
func TestRedis_Cluster(t *testing.T) { checkRedis(t, testenv.SharedCluster(t).URI(), atomicity{}) }

func TestMemory(t *testing.T) {
	checkAll(t, []store.Store{newMemory(t)}, atomicity{takes: true})
}

func newMemory(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Config{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkRedis(t *testing.T, uri string, atomic atomicity) {
	t.Helper()
	var gateways []store.Store
	for range clients {
		s, err := redisstore.Open(t.Context(), uri, redisstore.Config{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		gateways = append(gateways, s)
	}
	checkAll(t, gateways, atomic)
}

func checkAll(t *testing.T, stores []store.Store, atomic atomicity) {
	t.Helper()
	count, start, longest := map[string]int{}, time.Now(), time.Duration(0)
	for n := range *histories {
		h, linear, took, err := check(t.Context(), stores, *seed+uint64(n), atomic)
		if err != nil {
			t.Fatal(err)
		}
		if !linear {
			t.Fatalf("history %d of %d operations is not linearizable; limits %+v\n%s", *seed+uint64(n), len(h.done), h.limits, h.describe())
		}
		longest = max(longest, took)
		h.count(count)
	}
	t.Logf("%d histories of %d operations in %v, all linearizable, the longest search %v: %v",
		*histories, operations, time.Since(start).Round(time.Millisecond), longest.Round(time.Microsecond), count)
	for _, what := range []string{"ok", "rejected", "too costly", "waits", "granted in part", "overdrawn", "shadow", "peek", "returned", "charged", "extended", "reset"} {
		if count[what] < *histories/2 {
			t.Errorf("%q happened %d times only", what, count[what])
		}
	}
}

// check runs one history, and reports whether it is linearizable.
func check(ctx context.Context, stores []store.Store, seed uint64, atomic atomicity) (h *history, linear bool, took time.Duration, err error) {
	h = newHistory(rand.New(rand.NewPCG(seed, 0)), atomic)
	done, err := h.run(ctx, stores, seed)
	if err != nil {
		return h, false, 0, err
	}
	start := time.Now()
	result := porcupine.CheckOperationsTimeout(newModel(h.limits), done, time.Minute)
	if result == porcupine.Unknown {
		err = fmt.Errorf("history %d: no order was found within a minute", seed)
	}
	return h, result == porcupine.Ok, time.Since(start), err
}

// count counts what happened.
func (h *history) count(n map[string]int) {
	for _, op := range h.done {
		in, out := op.Input.(*input), op.Output.(*output)
		n[in.op]++
		for i, r := range out.outcome.Results {
			d := &in.demands[i]
			n[r.Status.String()]++
			if r.Status == store.OK && r.Wait > 0 {
				n["waits"]++
			}
			if r.Granted > 0 && r.Granted < d.Cost {
				n["granted in part"]++
			}
			if d.Overdraft {
				n["overdrawn"]++
			}
			if d.Shadow {
				n["shadow"]++
			}
		}
		for _, s := range out.settled {
			if s.Returned > 0 {
				n["returned"]++
			}
			if s.Charged > 0 {
				n["charged"]++
			}
		}
		if out.held {
			n["extended"]++
		}
	}
}

// describe lists the end of the longest order that was found, and after it all operations that could
// have been next and whose answers do not fit.
func (h *history) describe() string {
	_, info := porcupine.CheckOperationsVerbose(newModel(h.limits), h.done, time.Minute)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	var text strings.Builder
	ends := int64(math.MaxInt64)
	rest := slices.DeleteFunc(slices.Clone(h.done), func(op porcupine.Operation) bool {
		return slices.ContainsFunc(longest, func(other porcupine.Operation) bool { return other.Input == op.Input })
	})
	for _, op := range longest[max(0, len(longest)-20):] {
		describe(&text, op)
	}
	text.WriteString("no order is possible with one of these next:\n")
	for _, op := range rest {
		ends = min(ends, op.Return)
	}
	for _, op := range rest {
		if op.Call <= ends {
			describe(&text, op)
		}
	}
	return text.String()
}

func describe(text *strings.Builder, op porcupine.Operation) {
	in, out := op.Input.(*input), op.Output.(*output)
	fmt.Fprintf(text, "client %d, %d to %d: %s %v\n", op.ClientId, out.called, out.returned, in.op, in.sets)
	for i, d := range in.demands {
		r := &out.outcome.Results[i]
		fmt.Fprintf(text, "\tcost %d min %d wait %v shadow %v overdraft %v holder %.2x: %v granted %d at %d after %v %+v\n",
			d.Cost, d.Min, d.MaxWait, d.Shadow, d.Overdraft, d.Holder, r.Status, r.Granted, r.Now, r.Wait, r.Bands)
	}
	for i := range out.settled {
		t := &in.takes[i]
		fmt.Fprintf(text, "\tcost %d of %d taken at %d by %.2x, due %v, actual %d: %+v\n", t.Cost, t.Asked, t.At, t.Holder, t.Due, in.actual[i], out.settled[i])
	}
	if in.op == "extend" {
		fmt.Fprintf(text, "\ttaken at %d by %.2x: %v\n", in.takes[0].At, in.takes[0].Holder, out.held)
	}
}
