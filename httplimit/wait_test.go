package httplimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// gateway is a server with an engine of its own, over a store that others
// share.
type gateway struct {
	*testing.T
	url     string
	client  *http.Client
	arrived int // callers so far

	mu      sync.Mutex
	changed *sync.Cond
	waiting int
	reached int // callers so far that wait or were decided at once
	settled []store.Settlement
	served  []passage
}

// passage is a caller that was let through.
type passage struct {
	caller    int
	due, wall time.Time // by the store's clock, and by ours
}

var _ fluxgate.Observer = (*gateway)(nil)

// newGateways are two of them on one real Redis.
func newGateways(t *testing.T, rule rules.Rule, longest time.Duration, atOnce int) [2]*gateway {
	t.Helper()
	redis := testenv.SharedStandalone(t)
	prefix := fmt.Sprintf("wait-%d", rand.Uint64())
	var both [2]*gateway
	for i := range both {
		// A busy machine is not what this is about.
		store, err := redisstore.Open(t.Context(), redis.URI(), redisstore.Config{Prefix: prefix, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		g, handler := newGateway(t, store, rule, longest, atOnce)
		server := serve(t, handler)
		g.url, g.client = server.URL, server.Client()
		both[i] = g
	}
	return both
}

// newVirtualGateways are two of them on one store in memory, in a synctest bubble.
func newVirtualGateways(t *testing.T, rule rules.Rule, longest time.Duration, atOnce int) [2]*gateway {
	t.Helper()
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	var both [2]*gateway
	for i := range both {
		g, handler := newGateway(t, store, rule, longest, atOnce)
		g.url, g.client = "http://gateway", serveInMemory(t, handler)
		both[i] = g
	}
	return both
}

func newGateway(t *testing.T, store store.Store, rule rules.Rule, longest time.Duration, atOnce int) (*gateway, http.Handler) {
	t.Helper()
	g := &gateway{T: t}
	g.changed = sync.NewCond(&g.mu)
	engine := engineOver(t, store, []rules.Rule{rule}, fluxgate.WithWaiting(longest, atOnce), fluxgate.WithObserver(g), fluxgate.WithOnFailure(rules.FailClosed))
	limit := newLimit(t, engine, httplimit.WithSettling(true), httplimit.WithUserFunc(httplimit.Header("X-User")))
	return g, limit(http.HandlerFunc(g.serve))
}

func (g *gateway) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.changed.Broadcast()
}

// until waits for a condition, for a minute.
func (g *gateway) until(condition func() bool) {
	end := time.AfterFunc(time.Minute, g.changed.Broadcast)
	defer end.Stop()
	begin := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !condition() {
		if time.Since(begin) >= time.Minute {
			g.Error("what a test waits for does not happen")
			return
		}
		g.changed.Wait()
	}
}

// now is the number of those who wait.
func (g *gateway) now() (waiting int) {
	g.change(func() { waiting = g.waiting })
	return waiting
}

// passages are those who came through, in the order of their handlers.
func (g *gateway) passages() (all []passage) {
	g.change(func() { all = slices.Clone(g.served) })
	return all
}

func (g *gateway) Decided(_ context.Context, _ *fluxgate.Request, d *fluxgate.Decision, err error) {
	if err == nil && d.Wait == 0 {
		g.change(func() { g.reached++ })
	}
}

func (g *gateway) Waiting(_ context.Context, change int) {
	g.change(func() {
		g.waiting += change
		g.reached += max(0, change)
	})
}

func (g *gateway) Settled(_ context.Context, s store.Settlement, err error) {
	if err != nil {
		g.Errorf("not settled: %v", err)
	}
	g.change(func() { g.settled = append(g.settled, s) })
}

func (g *gateway) StoreFailed(_ context.Context, err error) { g.Errorf("the store failed: %v", err) }

// serve is the handler: it writes down who came through.
func (g *gateway) serve(_ http.ResponseWriter, r *http.Request) {
	wall := time.Now()
	a, ok := httplimit.FromContext(r.Context())
	caller, err := strconv.Atoi(r.Header.Get("X-Caller"))
	if !ok || err != nil {
		g.Errorf("no admission, or caller %v", err)
		return
	}
	d := a.Decision()
	g.change(func() { g.served = append(g.served, passage{caller, d.Time.Add(d.Wait), wall}) })
}

// call is a caller with a connection of its own. It returns the response's
// status and headers, or the error of ctx.
func (g *gateway) call(ctx context.Context, user string, caller int) (int, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	request.Close = true
	request.Header.Set("X-User", user)
	request.Header.Set("X-Caller", strconv.Itoa(caller))
	response, err := g.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, response.Header, response.Body.Close()
}

// caller is one that has arrived.
type caller struct {
	hangUp context.CancelFunc
	hungUp bool // read when all have ended
}

// arrive sends the next caller and returns when it is in the queue, or through.
func (g *gateway) arrive(callers *sync.WaitGroup) *caller {
	ctx, cancel := context.WithCancel(g.Context())
	c := &caller{hangUp: cancel}
	before, number := 0, g.arrived
	g.arrived++
	g.change(func() { before = g.reached })
	callers.Go(func() {
		defer cancel()
		status, _, err := g.call(ctx, "", number)
		if c.hungUp = errors.Is(err, context.Canceled); !c.hungUp && (err != nil || status != http.StatusOK) {
			g.Errorf("caller %d gets %d, %v", number, status, err)
		}
	})
	g.until(func() bool { return g.reached > before })
	return c
}

// queue is the rule that all of them wait for: one at a time, fifty a second.
var queue = rules.Rule{
	ID: "queue", OnLimitExceed: rules.WaitForRefill,
	Bands: []rules.Band{{Capacity: 1, RefillTokens: 50, Refill: time.Second}},
}

const interval = 20 * time.Millisecond

// checkDue checks the due times of all that came through: that they are no
// closer than the rule allows (I1), and in order of arrival at each gateway.
// It returns them in order.
func checkDue(t *testing.T, both [2]*gateway) []passage {
	t.Helper()
	var all []passage
	inversions := 0
	for i, g := range both {
		served := g.passages()
		for j := 1; j < len(served); j++ {
			if served[j].caller < served[j-1].caller {
				inversions++
			}
		}
		byDue := slices.SortedFunc(slices.Values(served), func(a, b passage) int { return a.due.Compare(b.due) })
		if !slices.IsSortedFunc(byDue, func(a, b passage) int { return cmp.Compare(a.caller, b.caller) }) {
			t.Errorf("gateway %d does not serve in order of arrival", i)
		}
		all = append(all, byDue...)
	}
	slices.SortFunc(all, func(a, b passage) int { return a.due.Compare(b.due) })
	for i := 1; i < len(all); i++ {
		if gap := all[i].due.Sub(all[i-1].due); gap < interval {
			t.Errorf("two are due within %v", gap)
		}
	}
	late := time.Duration(0)
	for _, p := range all {
		late = max(late, p.wall.Sub(p.due))
	}
	t.Logf("%d served; the handler runs up to %v after the store's due time, %d times not in the order of due times", len(all), late, inversions)
	return all
}

// rate is callers a second: the median over all pairs half the list apart, so
// that a machine that is busy for a moment delays some pairs and not the answer.
func rate(times []time.Time) float64 {
	half := len(times) / 2
	var spans []time.Duration
	for i := range half {
		spans = append(spans, times[i+half].Sub(times[i]))
	}
	slices.Sort(spans)
	return float64(half) / spans[len(spans)/2].Seconds()
}

// Four hundred callers are served at the rate of the rule.
func TestWait_FourHundredCallers(t *testing.T) {
	t.Parallel()
	both := newGateways(t, queue, 10*time.Second, 400)
	var callers, arrivals sync.WaitGroup
	for _, g := range both {
		arrivals.Go(func() {
			for range 200 {
				g.arrive(&callers)
			}
		})
	}
	arrivals.Wait()
	callers.Wait()
	all := checkDue(t, both)
	if len(all) != 400 {
		t.Fatalf("%d of 400 were served", len(all))
	}
	var due, wall []time.Time
	late := 0
	for _, p := range all {
		due, wall = append(due, p.due), append(wall, p.wall)
		if p.wall.Sub(p.due) > 5*interval {
			late++
		}
	}
	slices.SortFunc(wall, time.Time.Compare)
	t.Logf("served at %.2f a second by the store's clock, %.2f by ours", rate(due), rate(wall))
	if got := rate(due); got < 49 || got > 51 {
		t.Errorf("served at %.2f a second by the store's clock, want 50 ± 2 %%", got)
	}
	if got := rate(wall); late <= len(all)/4 && (got < 49 || got > 51) { // else the machine has other things to do
		t.Errorf("served at %.2f a second by our clock, want 50 ± 2 %%", got)
	}
}

// Callers that hang up give their tokens back. Time is virtual: on a busy machine, callers would
// be served before they hang up.
func TestWait_Canceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, waitCanceled)
}

func waitCanceled(t *testing.T) {
	both := newVirtualGateways(t, queue, 10*time.Second, 400)
	var callers sync.WaitGroup
	var queued []*caller // alternately at the two gateways
	// leave has a caller hang up, and waits until its token is settled, so that
	// who comes next finds what it left.
	leave := func(who int) {
		g := both[who%2]
		before := 0
		g.change(func() { before = len(g.settled) })
		queued[who].hangUp()
		g.until(func() bool { return len(g.settled) > before })
	}
	for i := range 400 {
		queued = append(queued, both[i%2].arrive(&callers))
		if i >= 100 && i%6 == 4 { // the last in the queue: its token comes back
			leave(i)
		}
		if i >= 200 && i%4 == 1 { // others have booked since: it is lost
			leave(i - 40)
		}
		time.Sleep(interval / 4) // some are served meanwhile
	}
	callers.Wait()

	all := checkDue(t, both)
	for _, p := range all {
		if !p.wall.Equal(p.due) {
			t.Errorf("caller %d is served %v after it is due", p.caller, p.wall.Sub(p.due))
		}
	}
	gone, restored := 0, int64(0)
	for _, c := range queued {
		if c.hungUp {
			gone++
		}
	}
	for _, g := range both {
		for _, s := range g.settled {
			restored += s.Returned
		}
	}
	if gone != 100 || len(all) != 300 {
		t.Errorf("%d hung up and %d were served, want 100 and 300", gone, len(all))
	}
	if restored != 50 {
		t.Errorf("%d tokens came back from %d callers, want those of the 50 that were last in the queue", restored, gone)
	}
}

// The default bounds are 5 s and 100 waits. Every user has a bucket, so that all
// of them wait equally long.
func TestWait_DefaultBounds(t *testing.T) {
	t.Parallel()
	perUser := func(refill time.Duration) rules.Rule {
		rule := queue
		rule.Scope = rules.ScopeUser
		rule.Bands = []rules.Band{{Capacity: 1, Refill: refill}}
		return rule
	}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	var callers sync.WaitGroup
	pass := func(g *gateway, user string) {
		if status, _, err := g.call(ctx, user, 0); err != nil || status != http.StatusOK {
			t.Errorf("the first request of %s gets %d, %v", user, status, err)
		}
	}
	wait := func(g *gateway, user string) {
		callers.Go(func() {
			if status, _, err := g.call(ctx, user, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter gets %d, %v", status, err)
			}
		})
	}
	// refused must be so while those who wait do.
	refused := func(what string, g *gateway, user string) {
		status, header, err := g.call(ctx, user, 0)
		if after, bad := strconv.Atoi(header.Get("Retry-After")); err != nil || bad != nil || status != http.StatusTooManyRequests || after < 1 {
			t.Errorf("%s gets %d, Retry-After %q, %v; want 429", what, status, header.Get("Retry-After"), err)
		}
	}

	// A minute is longer than anybody here waits, however slow the machine is.
	g := newGateways(t, perUser(time.Minute), 5*time.Second, 100)[0]
	pass(g, "long")
	refused("a wait longer than the longest", g, "long")
	if n := g.now(); n != 0 {
		t.Errorf("%d wait", n)
	}

	both := newGateways(t, perUser(50*time.Second), time.Minute, 100)
	g, other := both[0], both[1]
	var first sync.WaitGroup
	for i := range 101 {
		first.Go(func() { pass(g, fmt.Sprint("user-", i)) })
	}
	first.Wait()
	for i := range 100 {
		wait(g, fmt.Sprint("user-", i))
	}
	g.until(func() bool { return g.waiting == 100 })
	refused("the 101st waiter", g, "user-100")
	wait(other, "user-100") // it has places of its own
	other.until(func() bool { return other.waiting == 1 })
	if n := g.now(); n != 100 {
		t.Errorf("%d wait, want 100: the 101st was not refused at once", n)
	}
	hangUp()
	callers.Wait()
}
