package redisstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// promptly is how soon a canceled caller must return. It returns within a
// fraction of a millisecond; the rest is for a busy machine.
const promptly = 100 * time.Millisecond

// leaver is a take whose caller is canceled.
type leaver struct {
	leave  context.CancelFunc
	done   chan error
	stalls *testenv.Stalls
}

func (tr trial) takeAndLeave(demands ...store.Demand) leaver {
	ctx, cancel := context.WithCancel(tr.Context())
	l := leaver{leave: cancel, done: make(chan error, 1), stalls: tr.stalls}
	go func() {
		var out store.Outcome
		l.done <- tr.Take(ctx, demands, &out)
	}()
	return l
}

// gone cancels the caller and fails the test unless it returns at once.
func (l leaver) gone(t testing.TB) time.Duration {
	t.Helper()
	start := time.Now()
	l.leave()
	err := <-l.done
	took := l.stalls.Since(start)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left got %v", err)
	}
	if took > promptly {
		t.Errorf("a caller that left was gone after %v", took)
	}
	return took
}

// keysAsked is how many keys are queued for a node or in flight.
func (tr trial) keysAsked(shard int) int {
	q := tr.nodes.queue(shard)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keysOut + q.waiting
}

// underWay is how many calls a node has not answered, and how many requests
// wait for the next.
func (tr trial) underWay(shard int) (calls, waiting int) {
	q := tr.nodes.queue(shard)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls, len(q.queue)
}

// A caller that leaves a shared call does not affect the others.
func TestCancel_SharedCall(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 20 * time.Second, Refresh: time.Hour}, srv)
	// One call at a time, so that all waiting requests share the next.
	tr.eager, tr.most = 1, 1
	d := tr.demand(ample)
	tr.mustTake(d)
	// The store opens connections with a script when it starts, and reads the fleet state
	// when it has subscribed.
	must(t, tr.fleet.quiet(t.Context()))
	calls := int64(-1)
	until(t, "no more scripts run", func() bool {
		before := calls
		time.Sleep(wakePause + 50*time.Millisecond)
		calls = scriptCalls(t, srv)
		return calls == before
	})

	proxy.SetLatency(0, time.Second)
	first := tr.takeAndLeave(d)
	until(t, "the first call is under way", func() bool { n, _ := tr.underWay(0); return n == 1 })
	const stay, go1 = 6, 4
	var wg sync.WaitGroup
	errs := make([]error, stay)
	for i := range stay {
		wg.Go(func() {
			out, err := tr.take(d)
			if err == nil && !out.Admitted() {
				err = errors.New("rejected")
			}
			errs[i] = err
		})
	}
	var leavers []leaver
	for range go1 {
		leavers = append(leavers, tr.takeAndLeave(d))
	}
	until(t, "the others wait for the next call", func() bool { _, n := tr.underWay(0); return n == stay+go1 })
	if err := <-first.done; err != nil {
		t.Fatal(err)
	}
	var ran int64
	until(t, "the shared call has run", func() bool { ran = scriptCalls(t, srv) - calls; return ran >= 2 })
	if ran != 2 {
		t.Errorf("%d calls have run, want the first and a shared one", ran)
	}
	var longest time.Duration
	for _, l := range leavers {
		longest = max(longest, l.gone(t))
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Errorf("a caller that stayed: %v", err)
		}
	}
	proxy.SetLatency(0, 0)
	const stayed = 2 + stay
	var taken int64
	until(t, "what was taken for those who left is given back", func() bool {
		// What may have overflowed meanwhile is less than a token.
		taken = tr.taken(d)
		return taken <= stayed+1
	})
	t.Logf("%d callers left a call shared by %d, the last %v after its context ended; %d stayed or came before, %d tokens are missing",
		go1, stay+go1, longest.Round(time.Microsecond), stayed, taken)
	if taken < stayed {
		t.Errorf("%d tokens were taken for %d callers", taken, stayed)
	}
}

// A caller returns at once when its context ends, also if the server is frozen.
func TestCancel_FrozenServer(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 10 * time.Second}, srv)
	d := tr.demand(ample)
	tr.mustTake(d)
	if err := srv.Freeze(); err != nil {
		t.Fatal(err)
	}
	const callers = 40
	var leavers []leaver
	for range callers {
		leavers = append(leavers, tr.takeAndLeave(d))
	}
	stays := tr.takeAndLeave(d)
	// Some of them share calls, and others wait for one of these to end.
	until(t, "all have asked", func() bool { return tr.keysAsked(0) == callers+1 })
	var longest time.Duration
	for _, l := range leavers {
		longest = max(longest, l.gone(t))
	}
	// A caller whose context has already ended returns too.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := tr.Take(ctx, []store.Demand{d}, new(store.Outcome)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller with 20ms: %v", err)
	}
	if took := tr.stalls.Since(start); took > 20*time.Millisecond+promptly {
		t.Errorf("a caller with 20ms was gone after %v", took)
	}
	if err := srv.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-stays.done; err != nil {
		t.Errorf("a caller that stayed: %v", err)
	}
	stays.leave()
	var taken int64
	until(t, "what was taken for those who left is given back", func() bool {
		taken = tr.taken(d)
		return taken <= 3
	})
	t.Logf("%d callers left a frozen server, the slowest in %v; 2 did not leave, %d tokens are missing", callers+1, longest.Round(time.Microsecond), taken)
	if taken < 2 {
		t.Errorf("%d tokens were taken for 2 callers", taken)
	}
}

// leaveFrozenShard freezes one of two shards of a request, for less time than
// the cluster needs to notice.
func leaveFrozenShard(tr clusterTrial) {
	masters := tr.masters()
	cold, warm := tr.shardsOn(masters[0])[0], tr.shardsOn(masters[1])[0]
	here, there := tr.demandIn(warm, ample), tr.demandIn(cold, ample)
	const cost = 5
	here.Cost, there.Cost = cost, cost
	tr.mustTake(here, there)

	// Frozen in the first round, which takes nothing, or in the second, when
	// one of the two has taken: the latter is made by hand, from the parts of
	// decideParts.
	if err := masters[0].Freeze(); err != nil {
		tr.Fatal(err)
	}
	l := tr.takeAndLeave(here, there)
	until(tr, "the frozen shard is asked", func() bool { n, _ := tr.underWay(cold); return n > 0 })
	first := l.gone(tr)

	ctx, cancel := context.WithCancel(tr.Context())
	demands := []store.Demand{here, there}
	parts := tr.split(demands)
	left := make(chan struct{})
	go func() {
		var out store.Outcome
		asked, err := tr.requestParts(ctx, demands, &out, parts, time.Now().Add(10*time.Second))
		if !errors.Is(err, context.Canceled) {
			tr.Errorf("a caller that left got %v", err)
		}
		tr.withdraw(ctx, time.Now().Add(10*time.Second), asked)
		close(left)
	}()
	until(tr, "the living shard has taken", func() bool { return tr.taken(here) == 2*cost })
	start := time.Now()
	cancel()
	<-left
	second := tr.stalls.Since(start)
	if second > promptly {
		tr.Errorf("a caller that left was gone after %v", second)
	}
	if err := masters[0].Thaw(); err != nil {
		tr.Fatal(err)
	}
	until(tr, "what was taken is given back", func() bool { return tr.taken(here) <= cost+1 && tr.taken(there) <= cost+1 })
	tr.Logf("a caller left while it asked in %v, and while it took in %v", first.Round(time.Microsecond), second.Round(time.Microsecond))
}

// frozenShard sends a request to a frozen shard and a healthy one.
func frozenShard(tr clusterTrial) {
	masters := tr.masters()
	here, there := tr.demandIn(tr.shardsOn(masters[1])[0], ample), tr.demandIn(tr.shardsOn(masters[0])[0], ample)
	tr.mustTake(here, there)
	if err := masters[0].Freeze(); err != nil {
		tr.Fatal(err)
	}
	start := time.Now()
	out, err := tr.take(here, there)
	took := tr.stalls.Since(start)
	if err := masters[0].Thaw(); err != nil {
		tr.Fatal(err)
	}
	if err != nil {
		tr.Fatal(err)
	}
	tr.Logf("admission %d: the living shard is %v, the frozen one %v, after %v with a timeout of %v",
		out.Admission, out.Results[0].Status, out.Results[1].Status, took.Round(time.Millisecond), tr.config.Timeout)
	if out.Admission != store.Undecided || out.Results[0].Status != store.OK || out.Results[1].Status != store.Unavailable {
		tr.Errorf("%+v", out)
	}
	if took > tr.config.Timeout+slack {
		tr.Errorf("it took %v", took)
	}
	if taken := tr.taken(here); taken != 2 {
		tr.Errorf("2 requests took %d tokens of the living shard", taken)
	}
}

// goroutines are the stacks of this package's and the client's goroutines.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var ours []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "redisstore.(*") || strings.Contains(stack, "go-redis") {
			if !strings.Contains(stack, "testing.tRunner") {
				ours = append(ours, stack)
			}
		}
	}
	return ours
}

// untilNothingRuns waits until the last goroutine has ended. The client's probe
// of an unavailable server sleeps for a second at a time.
func untilNothingRuns(t testing.TB) {
	t.Helper()
	const patience = 10 * time.Second
	for start := time.Now(); len(goroutines()) > 0; time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("still there after %v:\n%s", patience, strings.Join(goroutines(), "\n\n"))
		}
	}
}

// No goroutine runs after Close.
func TestClose_Goroutines(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	for _, c := range []struct {
		name  string
		uri   func(t *testing.T) string
		fault func(t *testing.T)
	}{
		{"standalone", func(*testing.T) string { return srv.URI() }, nil},
		{"sentinel", func(t *testing.T) string { return testenv.SharedSentinel(t).URI() }, nil},
		{"cluster", func(t *testing.T) string { return testenv.SharedCluster(t).URI() }, nil},
		{"a frozen server", func(*testing.T) string { return srv.URI() }, func(t *testing.T) {
			if err := srv.Freeze(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = srv.Thaw() })
		}},
		{"a server that is gone", func(*testing.T) string { return srv.URI() }, func(t *testing.T) {
			if err := srv.Kill(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			uri := c.uri(t)
			untilNothingRuns(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			s, err := Open(ctx, uri, Config{Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			tr := trialOf(t, s)
			demands := []store.Demand{tr.demand(ample), tr.demand(ample), tr.demand(ample)}
			crowd := tr.gather(16, time.Millisecond, func(int) []store.Demand { return demands })
			crowd.untilAllServed(time.Now())
			if c.fault != nil {
				c.fault(t)
				crowd.trial.takeAndLeave(demands...).leave()
			}
			start := time.Now()
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			closed := time.Since(start)
			crowd.stop()
			stopped := tr.stalls.Since(start)
			untilNothingRuns(t)
			all := crowd.all()
			t.Logf("Close took %v, its callers had their answers after %v, and nothing ran after %v: %q",
				closed.Round(time.Microsecond), stopped.Round(time.Microsecond), time.Since(start).Round(time.Millisecond), all.kinds())
			all.onlyUnavailable(t)
			if stopped > slack {
				t.Errorf("callers waited for %v", stopped)
			}
			if err := s.Close(); err != nil {
				t.Errorf("closing again: %v", err)
			}
			if _, err := tr.take(demands...); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a take after Close: %v", err)
			}
		})
	}
}

// A dial that is in progress when the store is closed asks Sentinel for the
// master; it must not subscribe to it.
func TestClose_DuringDial(t *testing.T) {
	group := testenv.SharedSentinel(t)
	proxy := testenv.StartProxy(t, group.Addr())
	untilNothingRuns(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := Open(ctx, "redis-sentinel://"+proxy.Addr()+"/"+group.MasterName(), Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	tr := trialOf(t, s)
	d := tr.demand(ample)
	tr.mustTake(d)
	proxy.SetLatency(0, 500*time.Millisecond)
	master, err := group.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := master.Do(ctx, "CLIENT", "KILL", "TYPE", "normal"); err != nil { // the open connections may be enough for every caller
		t.Fatal(err)
	}
	crowd := tr.gather(crowdSize, 0, func(int) []store.Demand { return []store.Demand{d} })
	until(t, "a dial is under way", func() bool {
		return slices.ContainsFunc(goroutines(), func(stack string) bool { return strings.Contains(stack, "masterReplicaDialer") })
	})
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	crowd.stop()
	untilNothingRuns(t)
}
