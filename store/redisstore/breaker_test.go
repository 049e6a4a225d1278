package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// While Redis is frozen the first callers wait for the deadline and all others are
// answered at once. Health says so within a second, and all is normal two seconds
// after the thaw.
func TestBreaker_Frozen(t *testing.T) {
	const timeout = 300 * time.Millisecond
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: timeout}, srv)
	d := tr.demand(ample)
	crowd := tr.gather(crowdSize, 10*time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	frozen := time.Now()
	must(t, srv.Freeze())
	crowd.untilAllFail(frozen)
	until(t, "the breaker opens", func() bool { return tr.nodes.queue(0).outage() != nil })
	opened := tr.stalls.Since(frozen)
	h := tr.Health(t.Context())
	if noticed := tr.stalls.Since(frozen); h.Healthy() || !h.Nodes[0].Open || h.Nodes[0].Since.Before(frozen) || noticed > time.Second {
		t.Errorf("%v after the freeze: %+v", noticed, h)
	}
	// Callers that arrive together share a call, so the calls that fail may follow each other.
	if opened > failuresInRow*timeout {
		t.Errorf("the breaker opened after %v", opened)
	}
	longest := answerTimes(tr, d)
	t.Logf("open after %v, then answers in %v (median), %v (longest)", opened, longest[len(longest)/2], longest[len(longest)-1])
	if median := longest[len(longest)/2]; median > 10*time.Millisecond {
		t.Errorf("the median answer took %v while the breaker was open", median)
	}

	thawed := time.Now()
	must(t, srv.Thaw())
	back := crowd.untilAllServed(thawed)
	t.Logf("served %v after the thaw", back)
	if back > 2*time.Second {
		t.Errorf("served again %v after the thaw, want at most 2 s", back)
	}
	crowd.stop()
	all := crowd.all()
	all.onlyUnavailable(t)
	until(t, "health is normal", func() bool { h := tr.Health(t.Context()); return h.Healthy() })
	if normal := tr.stalls.Since(thawed); normal > 2*time.Second {
		t.Errorf("health is normal %v after the thaw", normal)
	}
}

// answerTimes are how long takes wait for their failure, in order.
func answerTimes(tr trial, d store.Demand) []time.Duration {
	tr.Helper()
	var times []time.Duration
	for range 200 {
		start := time.Now()
		_, err := tr.take(d)
		times = append(times, tr.stalls.Since(start))
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, store.ErrNotSent) {
			tr.Fatalf("a take while the breaker is open: %v", err)
		}
	}
	slices.Sort(times)
	return times
}

// A restart is over for callers soon after it is over: the store does not wait for
// the client's own pause.
func TestBreaker_Restart(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 100 * time.Millisecond}, srv)
	d := tr.demand(ample)
	crowd := tr.gather(crowdSize, 10*time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	var back []time.Duration
	for range 3 { // a busy machine can be slow once
		killed := time.Now()
		must(t, srv.Kill())
		crowd.untilAllFail(killed)
		must(t, srv.Restart(t.Context()))
		back = append(back, crowd.untilAllServed(time.Now()))
		if back[len(back)-1] <= time.Second {
			return
		}
	}
	t.Errorf("served again %v after each restart", back)
}

// Peek, Settle and Reset keep to the deadline of decisions, and are answered at once
// while the breaker is open.
func TestBreaker_OtherCalls(t *testing.T) {
	const timeout = 200 * time.Millisecond
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: timeout}, srv)
	d := tr.demand(ample)
	takes := tr.takeEventually(d)
	must(t, srv.Freeze())
	calls := map[string]func() error{
		"Peek":   func() error { return tr.Peek(t.Context(), []store.Demand{d}, new(store.Outcome)) },
		"Settle": func() error { return store.SettleError(tr.Settle(t.Context(), takes, []int64{0})) },
		"Reset":  func() error { return errorOf(tr.Reset(t.Context(), store.Reset{Key: d.Key})) },
		"Reset rule": func() error {
			return errorOf(tr.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set", Rule: "rule"}}))
		},
	}
	run := func(atMost time.Duration) {
		t.Helper()
		for name, call := range calls {
			start := time.Now()
			if err := call(); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			if elapsed := tr.stalls.Since(start); elapsed > atMost {
				t.Errorf("%s took %v", name, elapsed)
			}
		}
	}
	run(timeout + timeout/2)
	for range failuresInRow {
		_, _ = tr.take(d)
	}
	until(t, "the breaker opens", func() bool { return tr.nodes.queue(0).outage() != nil })
	run(timeout / 4)
	must(t, srv.Thaw())
	tr.takeEventually(d)
}

// A network that is slower than the deadline is an outage: health says so within a
// second, though the server answers.
func TestBreaker_SlowNetwork(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 100 * time.Millisecond}, srv)
	d := tr.demand(ample)
	crowd := tr.gather(crowdSize, 10*time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	slow := time.Now()
	proxy.SetLatency(75*time.Millisecond, 75*time.Millisecond)
	until(t, "health notices", func() bool { h := tr.Health(t.Context()); return !h.Healthy() })
	if noticed := tr.stalls.Since(slow); noticed > time.Second {
		t.Errorf("health noticed after %v", noticed)
	}
	crowd.untilAsked(1_000)
	if h := tr.Health(t.Context()); h.Healthy() {
		t.Errorf("healthy while the network is too slow: %+v", h)
	}
	proxy.SetLatency(0, 0)
	if back := crowd.untilAllServed(time.Now()); back > 2*time.Second {
		t.Errorf("served again %v after the network was fast", back)
	}
}

// A server that is far away is used again after an outage, however far, and also if it was near
// before the outage.
func TestBreaker_FarServer(t *testing.T) {
	const timeout = time.Second
	for _, c := range []struct{ before, after int }{{50, 50}, {100, 100}, {200, 200}, {0, 200}, {400, 400}} {
		before, after := time.Duration(c.before)*time.Millisecond, time.Duration(c.after)*time.Millisecond
		t.Run(fmt.Sprintf("%v, then %v", before, after), func(t *testing.T) {
			t.Parallel()
			srv := testenv.StartStandalone(t, testenv.Config{})
			proxy := testenv.StartProxy(t, srv.Addr())
			tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: timeout}, srv)
			d := tr.demand(ample)
			proxy.SetLatency(before/2, before/2)
			for range 10 {
				tr.takeEventually(d)
			}
			proxy.Refuse()
			proxy.Cut()
			until(t, "the breaker opens", func() bool {
				_, _ = tr.take(d)
				return tr.nodes.queue(0).outage() != nil
			})
			proxy.SetLatency(after/2, after/2)
			must(t, proxy.Accept())
			until(t, "the breaker closes", func() bool { return tr.nodes.queue(0).outage() == nil })
			tr.takeEventually(d)
		})
	}
}

// On a network that takes half of the deadline, no decision fails and no connection
// is opened for every call.
func TestPool_SlowNetwork(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 400 * time.Millisecond, Pool: Pool{MaxIdle: 1, Size: 1}}, srv)
	d := tr.demand(ample)
	proxy.SetLatency(50*time.Millisecond, 50*time.Millisecond)
	crowd := tr.gather(crowdSize, time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	crowd.untilAsked(2_000)
	before := proxy.Accepted()
	crowd.untilAsked(2_000)
	t.Logf("%d connections were opened, then %d", before, proxy.Accepted()-before)
	if n := proxy.Accepted() - before; n > mostCalls {
		t.Errorf("%d connections were opened for 2,000 decisions, and %d are enough for all", n, mostCalls)
	}
}

// When the network becomes slow, but not too slow, calls that open connections are
// late. More connections are opened for them, and if the breaker opens, by its probe:
// then all are served.
func TestPool_NetworkBecomesSlow(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 200 * time.Millisecond}, srv)
	d := tr.demand(ample)
	crowd := tr.gather(crowdSize, 10*time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	proxy.SetLatency(50*time.Millisecond, 50*time.Millisecond)
	// A machine that stops for a tenth of a second makes calls late too, so a round
	// may be disturbed. Without the connections every round has failures.
	for range 12 {
		crowd.untilAllServed(time.Now().Add(time.Second))
		before := crowd.all().failed
		crowd.untilAsked(1_000)
		late := crowd.all().failed - before
		t.Logf("%d requests failed, then %d of 1,000", before, late)
		if late <= 15 {
			return
		}
	}
	t.Error("requests still fail")
}

// The number of connections is bounded, also while each takes long to open.
func TestPool_Size(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	const size = 25
	var open, most atomic.Int64
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		n := open.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			open.Add(-1)
			return nil, err
		}
		return &countedConn{Conn: conn, open: &open}, nil
	}})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(t.Context(), client, Config{Timeout: 100 * time.Millisecond, Pool: Pool{Size: size}})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	tr := trialOf(t, s)
	d := tr.demand(ample)
	crowd := tr.gather(crowdSize, time.Millisecond, func(int) []store.Demand { return []store.Demand{d} })
	crowd.untilAllServed(time.Now())
	for range 5 {
		proxy.SetLatency(60*time.Millisecond, 60*time.Millisecond)
		time.Sleep(400 * time.Millisecond) // several calls exceed the timeout
		proxy.SetLatency(0, 0)
		crowd.untilAllServed(time.Now())
	}
	t.Logf("at most %d connections", most.Load())
	if most.Load() > size+eagerCalls {
		t.Errorf("%d connections of %d and %d of a probe", most.Load(), size, eagerCalls)
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Only the shards of a node that does not answer are concerned.
func TestBreaker_OneNodeOfACluster(t *testing.T) {
	cluster := testenv.StartCluster(t, partialCoverage)
	tr := newClusterTrial(t, cluster, 100*time.Millisecond)
	masters := tr.masters()
	here, there := tr.demandIn(tr.shardsOn(masters[1])[0], ample), tr.demandIn(tr.shardsOn(masters[0])[0], ample)
	until(t, "both shards decide", func() bool { _, err := tr.take(here, there); return err == nil })
	must(t, masters[0].Freeze())
	cold := tr.shardsOn(masters[0])[0]
	former := tr.nodes.queue(cold)
	until(t, "the breaker opens", func() bool {
		_, _ = tr.take(there)
		return former.outage() != nil
	})
	start := time.Now()
	out, err := tr.take(here, there)
	if err != nil || out.Results[0].Status != store.OK || out.Results[1].Status != store.Unavailable {
		t.Errorf("with one of two shards: %+v, %v", out, err)
	}
	if elapsed := tr.stalls.Since(start); elapsed > 50*time.Millisecond {
		t.Errorf("it took %v", elapsed)
	}
	promoted := time.Time{}
	until(t, "the shard is served by its new master", func() bool {
		if promoted.IsZero() {
			if m, err := cluster.MasterOf(t.Context(), int(slotOfShard(cold, tr.config.Shards))); err == nil && m != masters[0] {
				promoted = time.Now()
			}
		}
		_, err := tr.take(there)
		return err == nil
	})
	if served := tr.stalls.Since(promoted); !promoted.IsZero() {
		t.Logf("served %v after the promotion was seen", served)
		if served > 2*time.Second {
			t.Errorf("served %v after the promotion", served)
		}
	}
	must(t, masters[0].Thaw())
	until(t, "the former master, now a replica, is no longer probed", func() bool { return former.outage() == nil })
}

func TestBreaker_ErrorsThatCount(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		counts bool
	}{
		"no error":            {nil, false},
		"no answer in time":   {context.DeadlineExceeded, true},
		"read timeout":        {&net.OpError{Op: "read", Err: syscall.ETIMEDOUT}, true},
		"connection refused":  {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"connection reset":    {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		"connection closed":   {io.EOF, true},
		"LOADING":             {replyError("LOADING Redis is loading the dataset in memory"), true},
		"MASTERDOWN":          {replyError("MASTERDOWN Link with MASTER is down"), true},
		"BUSY":                {replyError("BUSY Redis is busy running a script"), true},
		"READONLY":            {replyError("READONLY You can't write against a read only replica."), true},
		"CLUSTERDOWN":         {replyError("CLUSTERDOWN The cluster is down"), true},
		"OOM":                 {replyError("OOM command not allowed when used memory > 'maxmemory'."), false},
		"NOPERM":              {replyError("NOPERM this user has no permissions"), false},
		"MOVED":               {replyError("MOVED 1 127.0.0.1:1"), false},
		"ASK":                 {replyError("ASK 1 127.0.0.1:1"), false},
		"TRYAGAIN":            {replyError("TRYAGAIN Multiple keys request during rehashing of slot"), false},
		"NOSCRIPT":            {replyError("NOSCRIPT No matching script."), false},
		"a caller that left":  {context.Canceled, false},
		"a full pool":         {redis.ErrPoolTimeout, false},
		"an exhausted pool":   {redis.ErrPoolExhausted, false},
		"a closed client":     {redis.ErrClosed, false},
		"an answer of others": {errAnswer, false},
	} {
		if got := countsAsFailure(c.err); got != c.counts {
			t.Errorf("%s: counts is %t, want %t", name, got, c.counts)
		}
		if c.err != nil {
			if got := countsAsFailure(fmt.Errorf("wrapped: %w", c.err)); got != c.counts {
				t.Errorf("%s, wrapped: counts is %t, want %t", name, got, c.counts)
			}
		}
	}
}

// replyError is an error reply of a server.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// Some failures among successes do not open the breaker, half of the last 16 do.
func TestBreaker_ShareOfFailures(t *testing.T) {
	tr := newTrial(t, testenv.SharedStandalone(t).URI(), Config{})
	q := tr.nodes.queue(0)
	note := func(failure error) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.note(failure)
		return q.breaker.outage != nil
	}
	for range recentCalls / 2 {
		note(nil)
		note(io.EOF)
	}
	if q.outage() == nil {
		t.Error("half of the calls failed and the breaker is closed")
	}
	until(t, "a probe closes it", func() bool { return q.outage() == nil })
	for range 200 {
		if note(io.EOF) || note(nil) || note(nil) || note(nil) {
			t.Fatal("a quarter of the calls failed and the breaker opened")
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf is the error of a reset.
func errorOf(_ bool, err error) error { return err }
