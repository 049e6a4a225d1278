package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// crowdSize is the number of concurrent callers during a fault.
const crowdSize = 64

// slack is the delay allowed for a busy machine.
const slack = time.Second

// trial is a store with helpers for fault tests.
type trial struct {
	testing.TB
	*Store
	stalls *testenv.Stalls
}

// Scripts is how often the script was loaded into a server that did not have it.
func (tr trial) Scripts() (loads uint64) {
	tr.nodes.mu.Lock()
	defer tr.nodes.mu.Unlock()
	for _, q := range tr.nodes.queues {
		loads += q.scripts.Load()
	}
	return loads
}

func trialOf(t testing.TB, s *Store) trial { return trial{t, s, testenv.WatchStalls(t)} }

// newTrial is a trial of a store at uri. At its end the servers must not have
// seen a command that reads or deletes more than our own keys.
func newTrial(t testing.TB, uri string, config Config, servers ...*testenv.Server) trial {
	t.Helper()
	s := openStore(t, uri, config)
	t.Cleanup(func() { onlyOwnKeys(t, servers) })
	return trialOf(t, s)
}

// onlyOwnKeys fails the test if a server was sent a command that reaches
// beyond single keys.
func onlyOwnKeys(t testing.TB, servers []*testenv.Server) {
	t.Helper()
	for _, srv := range servers {
		if !srv.Running() {
			continue
		}
		stats, err := srv.Info(context.Background(), "commandstats")
		if err != nil {
			t.Errorf("asking for the commands that were sent: %v", err)
			continue
		}
		for _, command := range []string{"keys", "scan", "flushall", "flushdb"} {
			if seen := stats["cmdstat_"+command]; seen != "" {
				t.Errorf("%s was sent %s: %s", srv.Addr(), strings.ToUpper(command), seen)
			}
		}
	}
}

// infoCount is a number in an INFO section, such as the calls of a command.
func infoCount(t testing.TB, srv *testenv.Server, section, field string) int64 {
	t.Helper()
	info, err := srv.Info(t.Context(), section)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(info[field], "=")
	text, _, _ = strings.Cut(text, ",")
	n, _ := strconv.ParseInt(text, 10, 64) // absent is 0
	return n
}

// scriptCalls is how often a server was called to run the script.
func scriptCalls(t testing.TB, srv *testenv.Server) int64 {
	t.Helper()
	return infoCount(t, srv, "commandstats", "cmdstat_evalsha") + infoCount(t, srv, "commandstats", "cmdstat_eval")
}

// replies is how often servers have answered with an error, such as ASK.
func replies(t testing.TB, word string, servers ...*testenv.Server) int64 {
	t.Helper()
	var n int64
	for _, srv := range servers {
		n += infoCount(t, srv, "errorstats", "errorstat_"+word)
	}
	return n
}

// ample holds enough for a whole test, and regains nothing while it runs: what
// is missing from it was taken.
var ample = rules.Band{Label: "ample", Capacity: 1_000_000, RefillTokens: 10, Refill: time.Hour}

// demand is for a token of an unused bucket, in any shard.
func (tr trial) demand(band rules.Band) store.Demand {
	tr.Helper()
	exact, err := band.Exact(0)
	if err != nil {
		tr.Fatal(err)
	}
	d := store.Demand{Bands: []store.ExactBand{exact}, Cost: 1}
	d.Key = store.Key{RuleSet: "faults", Rule: "rule"}
	_, _ = rand.Read(d.Key.ID[:]) // never fails
	return d
}

// demandIn is a demand in one shard.
func (tr trial) demandIn(shard int, band rules.Band) store.Demand {
	tr.Helper()
	for {
		if d := tr.demand(band); tr.names.shard(d.Key.ID) == shard {
			return d
		}
	}
}

// name is what a demand's bucket is called on the server.
func (tr trial) name(d store.Demand) string {
	return tr.names.key(&d.Key, tr.fleet.generations())
}

// stored is the state of a demand's bucket on the server.
func (tr trial) stored(srv *testenv.Server, d store.Demand) string {
	tr.Helper()
	state, err := srv.Do(tr.Context(), "DUMP", tr.name(d))
	if err != nil {
		tr.Fatal(err)
	}
	return fmt.Sprint(state)
}

func (tr trial) take(demands ...store.Demand) (store.Outcome, error) {
	var out store.Outcome
	err := tr.Take(tr.Context(), demands, &out)
	return out, err
}

func (tr trial) mustTake(demands ...store.Demand) {
	tr.Helper()
	if out, err := tr.take(demands...); err != nil || !out.Admitted() {
		tr.Fatalf("Take: %v, %+v", err, out)
	}
}

// takeEventually takes as soon as the store answers in time.
func (tr trial) takeEventually(d store.Demand) (takes store.Takes) {
	tr.Helper()
	until(tr, "a take succeeds", func() bool {
		out, err := tr.take(d)
		takes = store.NewTakes([]store.Demand{d}, &out)
		return err == nil
	})
	return takes
}

// taken is what is missing from a bucket.
func (tr trial) taken(d store.Demand) int64 {
	tr.Helper()
	d.Cost = 0
	var out store.Outcome
	if err := tr.Peek(tr.Context(), []store.Demand{d}, &out); err != nil {
		tr.Fatalf("Peek: %v", err)
	}
	return d.Bands[0].Capacity - out.Results[0].Bands[0].Remaining
}

// until polls for a condition, for longer than any server needs.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	for start := time.Now(); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// caller is what one caller of a crowd has seen.
type caller struct {
	asked, admitted, failed int64
	passes                  []int64 // when its first demand was admitted, by the store's clock
	lastOK, lastFailure     time.Time
	away                    int64         // demands that were unavailable, in answers that were not errors
	longest                 time.Duration // without stalls
	longestFailure          time.Duration
	errs                    map[string]int64
	strange                 []error // unexpected errors
}

// crowd is a number of callers that send requests in a loop.
type crowd struct {
	trial
	began   time.Time
	halt    chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	callers []caller
}

// gather starts n callers; the demands of a caller may differ each time. They
// pause in between, so that the machine has time for the servers.
func (tr trial) gather(n int, pause time.Duration, next func(caller int) []store.Demand) *crowd {
	c := &crowd{trial: tr, began: time.Now(), halt: make(chan struct{}), callers: make([]caller, n)}
	for i := range n {
		c.callers[i].errs = map[string]int64{}
		c.wg.Go(func() { c.run(i, pause, next) })
	}
	tr.Cleanup(c.stop)
	return c
}

// stop ends the crowd and waits for outstanding answers.
func (c *crowd) stop() {
	c.mu.Lock()
	select {
	case <-c.halt:
	default:
		close(c.halt)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *crowd) run(i int, pause time.Duration, next func(caller int) []store.Demand) {
	var out store.Outcome
	for {
		demands := next(i)
		start := time.Now()
		err := c.Take(context.Background(), demands, &out)
		c.note(i, start, &out, err)
		select {
		case <-c.halt:
			return
		case <-time.After(pause):
		}
	}
}

func (c *crowd) note(i int, start time.Time, out *store.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.callers[i]
	w.asked++
	took := c.stalls.Since(start)
	w.longest = max(w.longest, took)
	if err != nil {
		w.failed++
		w.lastFailure = time.Now()
		w.longestFailure = max(w.longestFailure, took)
		w.errs[err.Error()]++
		if !errors.Is(err, ErrUnavailable) {
			w.strange = append(w.strange, err)
		}
		return
	}
	for _, r := range out.Results {
		if r.Status == store.Unavailable {
			w.away++
			w.lastFailure = time.Now()
		}
	}
	// The whole answer, or a part of it, came from a server.
	if w.lastFailure.Before(start) {
		w.lastOK = start
	}
	if out.Admission != store.NotAdmitted {
		w.admitted++
		if first := out.Results[0]; first.Status == store.OK {
			w.passes = append(w.passes, first.Now)
		}
	}
}

// sum is what the callers from one to another have seen together.
func (c *crowd) sum(from, to int) caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := caller{errs: map[string]int64{}}
	for i := from; i < to; i++ {
		w := &c.callers[i]
		all.asked += w.asked
		all.admitted += w.admitted
		all.failed += w.failed
		all.away += w.away
		all.passes = append(all.passes, w.passes...)
		all.longest = max(all.longest, w.longest)
		all.longestFailure = max(all.longestFailure, w.longestFailure)
		all.strange = append(all.strange, w.strange...)
		for text, n := range w.errs {
			all.errs[text] += n
		}
	}
	slices.Sort(all.passes)
	return all
}

func (c *crowd) all() caller { return c.sum(0, len(c.callers)) }

// everyCaller reports whether something holds for each of them.
func (c *crowd) everyCaller(holds func(*caller) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.callers {
		if !holds(&c.callers[i]) {
			return false
		}
	}
	return true
}

// untilAllFail waits until every caller has failed after a moment.
func (c *crowd) untilAllFail(moment time.Time) {
	c.Helper()
	until(c, "every caller notices", func() bool {
		return c.everyCaller(func(w *caller) bool { return w.lastFailure.After(moment) })
	})
}

// untilAllServed waits until every caller has got a full answer to a request
// sent after a moment, and returns how long it took, without stalls.
func (c *crowd) untilAllServed(moment time.Time) time.Duration {
	c.Helper()
	until(c, "every caller is served again", func() bool {
		return c.everyCaller(func(w *caller) bool { return w.lastOK.After(moment) })
	})
	return c.stalls.Since(moment)
}

// untilAsked waits until the crowd has sent n more requests.
func (c *crowd) untilAsked(n int64) {
	c.Helper()
	goal := c.all().asked + n
	until(c, fmt.Sprintf("the crowd asks %d times", n), func() bool { return c.all().asked >= goal })
}

// onlyUnavailable fails the test if a caller saw an error of another kind.
func (w *caller) onlyUnavailable(t testing.TB) {
	t.Helper()
	for _, err := range w.strange {
		t.Errorf("an error that is not ErrUnavailable: %v", err)
	}
}

// unharmed fails the test if a caller saw an error or no answer for a demand, or waited for long.
func (w *caller) unharmed(t testing.TB) {
	t.Helper()
	if w.asked == 0 {
		t.Error("nobody asked")
	}
	if w.failed > 0 || w.away > 0 {
		t.Errorf("%d of %d calls failed and %d demands were unavailable: %v", w.failed, w.asked, w.away, w.kinds())
	}
	if w.longest > 2*time.Second {
		t.Errorf("a call took %v", w.longest)
	}
}

// kinds are the errors and how often each was seen, a few of them.
func (w *caller) kinds() []string {
	var all []string
	for _, text := range slices.Sorted(maps.Keys(w.errs)) {
		all = append(all, fmt.Sprintf("%d× %s", w.errs[text], text))
	}
	return all[:min(len(all), 8)]
}

// mostAtOnce is the highest level of a bucket that handed out a token at each
// of these moments, without limit: by I1 it never exceeds the capacity.
func mostAtOnce(b store.ExactBand, passes []int64) float64 {
	var used, most int64
	for i, at := range passes {
		if i > 0 {
			used = max(0, used-(at/b.Tick-passes[i-1]/b.Tick)*b.Rate)
		}
		used += b.Unit
		most = max(most, used)
	}
	return float64(most) / float64(b.Unit)
}

// holds is the capacity of a band and what it regains in a while.
func holds(b rules.Band, while time.Duration) float64 {
	return float64(b.Capacity) + float64(b.Tokens())*float64(while)/float64(b.Refill)
}
