package redisstore

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

const (
	lineOpened = "Redis does not answer"
	lineClosed = "Redis answers again"
)

// noteFailures notes failed calls until the breaker opens.
func (q *nodeQueue) noteFailures() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.breaker.outage == nil {
		q.note(io.EOF)
	}
}

// While a cluster without a part of its slots refuses calls, a probe does not close
// the breaker of a node that answers: there is one log line for each. This holds for
// the documented ACL, and for a script without keys a node would answer.
func TestProbe_ClusterDown(t *testing.T) {
	log := new(testenv.LogBuffer)
	cluster := testenv.StartCluster(t, aclConfig(documentedUser(t, "server")))
	tr := clusterTrial{newTrial(t, cluster.URI(), Config{Timeout: 100 * time.Millisecond, Shards: 12, Logger: log.Logger()}, cluster.Nodes()...), cluster}
	masters := tr.masters()
	shard := tr.shardsOn(masters[1])[0]
	d, q := tr.demandIn(shard, ample), tr.nodes.queue(shard)
	far := tr.shardsOn(masters[0])[0]
	cold, frozen := tr.demandIn(far, ample), tr.nodes.queue(far)
	tr.takeEventually(d)
	must(t, masters[0].Freeze())
	until(t, "the breaker of the frozen master opens", func() bool {
		_, _ = tr.take(cold)
		return frozen.outage() != nil
	})
	until(t, "the cluster refuses calls", func() bool { _, err := tr.take(d); return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") })
	until(t, "the breaker opens", func() bool { _, _ = tr.take(d); return q.outage() != nil })
	until(t, "the cluster is up again", func() bool { _, err := tr.take(d); return err == nil })
	until(t, "the end of the outage is logged", func() bool {
		return len(log.Lines(`its buckets are on another server now" node=`+masters[0].Addr())) == 1
	})
	must(t, masters[0].Thaw())
	if opened := log.Lines(lineOpened + `: requests are counted in this process (onFailure local), allowed (open) or rejected (closed)" node=` + q.addr); len(opened) != 1 {
		t.Errorf("the breaker opened %d times: %v", len(opened), opened)
	}
}

// Calls that were in flight when the breaker closed do not open it: they are on
// connections that are no longer used.
func TestProbe_FormerConnections(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: time.Second, Logger: log.Logger()}, srv)
	d := tr.demand(ample)
	proxy.SetLatency(2*time.Millisecond, 2*time.Millisecond) // so that many calls may be in flight
	for range 20 {
		tr.mustTake(d)
	}
	before := len(log.Lines(lineOpened)) // the first calls may have been late
	proxy.Blackhole(true)
	var callers sync.WaitGroup
	for range mostCalls {
		callers.Go(func() { _, _ = tr.take(d) })
		time.Sleep(50 * time.Millisecond) // so that they fail one after the other
	}
	until(t, "the breaker opens", func() bool { return len(log.Lines(lineOpened)) > before })
	proxy.Blackhole(false)
	callers.Wait()
	tr.takeEventually(d)
	if opened := log.Lines(lineOpened)[before:]; len(opened) != 1 {
		t.Errorf("the breaker opened %d times: %v", len(opened), opened)
	}
}

// The end of the store is not an answer of Redis.
func TestProbe_ClosedStore(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	s := openStore(t, "redis://"+proxy.Addr(), Config{Logger: log.Logger()})
	proxy.Blackhole(true)
	accepted := proxy.Accepted()
	s.nodes.queue(0).noteFailures()
	until(t, "a probe waits for connections", func() bool { return proxy.Accepted() >= accepted+eagerCalls })
	must(t, s.Close())
	if lines := log.Lines(lineClosed); len(lines) > 0 {
		t.Error(lines)
	}
}

// An outage is noticed and logged without a single request. Its cause is that of
// the last probe.
func TestProbe_NoRequests(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, srv.URI(), Config{Timeout: 100 * time.Millisecond, Refresh: 100 * time.Millisecond, Logger: log.Logger()})
	must(t, srv.Freeze())
	q := s.nodes.queue(0)
	until(t, "the breaker opens", func() bool { return q.outage() != nil })
	first := q.outage()
	until(t, "a probe fails", func() bool { return q.outage() != first })
	if now := q.outage(); now.since != first.since || strings.Contains(now.err.Error(), "\n") {
		t.Errorf("since %v, %q", now.since, now.err)
	}
	must(t, srv.Thaw())
	until(t, "the end is logged", func() bool { return len(log.Lines(lineClosed)) == 1 })
}

// A node that answers again is only charged at first, if there is something to
// charge, and what is settled.
func TestProbe_ChargedFirst(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 100 * time.Millisecond}, srv)
	d := tr.demand(ample)
	takes := tr.takeEventually(d)
	must(t, srv.Freeze())
	q := tr.nodes.queue(0)
	until(t, "the breaker opens", func() bool { _, _ = tr.take(d); return q.outage() != nil })
	charge := func() error { return tr.Take(t.Context(), []store.Demand{charging(d)}, new(store.Outcome)) }
	for began := time.Now(); time.Since(began) < 2*longestHold; {
		if err := charge(); !errors.Is(err, store.ErrNotSent) {
			t.Fatalf("a charge while Redis is frozen: %v", err)
		}
	}
	must(t, srv.Thaw())
	until(t, "it is charged", func() bool { return charge() == nil })
	charged := time.Now()
	if _, err := tr.take(d); !errors.Is(err, store.ErrNotSent) {
		t.Errorf("a take after the first charge: %v", err)
	}
	if _, err := tr.Settle(t.Context(), takes, []int64{0}); err != nil {
		t.Errorf("a settlement after the first charge: %v", err)
	}
	until(t, "it decides", func() bool { _, err := tr.take(d); return err == nil })
	if held := time.Since(charged); held < longestHold/2 || held > 2*longestHold {
		t.Errorf("it decided %v after it was charged", held)
	}
}

// A charge is made once, also if its answer takes longer than that of a decision
// may, or arrives after the caller has left: it is not given back.
func TestCharge_LateAnswer(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 100 * time.Millisecond}, srv)
	d := tr.demand(ample)
	tr.takeEventually(d)
	charge := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return tr.Take(ctx, []store.Demand{charging(d)}, new(store.Outcome))
	}
	proxy.SetLatency(0, 300*time.Millisecond)
	must(t, charge(5*time.Second))
	before := tr.stored(srv, d)
	until(t, "a charge has run", func() bool { // a first one may wait for a connection
		if err := charge(150 * time.Millisecond); err == nil {
			t.Error("a charge was answered before it could be")
		}
		return tr.stored(srv, d) != before
	})
	after := tr.stored(srv, d)
	proxy.SetLatency(0, 0)
	until(t, "the answer has arrived, and another one", func() bool { return tr.Peek(t.Context(), []store.Demand{d}, new(store.Outcome)) == nil })
	if tr.stored(srv, d) != after {
		t.Error("the charge was given back")
	}
}

// A node that answers probes and not calls does not fill the log.
func TestProbe_SucceedsTooEarly(t *testing.T) {
	log := new(testenv.LogBuffer)
	s := openStore(t, testenv.SharedStandalone(t).URI(), Config{Logger: log.Logger()})
	q := s.nodes.queue(0)
	for range 4 {
		q.noteFailures()
		until(t, "a probe succeeds", func() bool { return q.outage() == nil })
	}
	for _, line := range []string{lineOpened, lineClosed} {
		if n := len(log.Lines(line)); n != 2 { // the first time, and the second time
			t.Errorf("%d lines say %q:\n%s", n, line, log)
		}
	}
}

// The goroutines of a node that has left the cluster end.
func TestTopology_PrunedNode(t *testing.T) {
	tr := newTrial(t, testenv.SharedStandalone(t).URI(), Config{})
	tr.mustTake(tr.demand(ample))
	q := tr.nodes.queue(0)
	waiting := func() int { q.mu.Lock(); defer q.mu.Unlock(); return q.idle }
	until(t, "a goroutine waits for work", func() bool { return waiting() > 0 })
	if !q.end() || waiting() != 0 {
		t.Fatal("it did not end")
	}
	until(t, "all have ended", func() bool { return len(q.work) == 0 })
	tr.mustTake(tr.demand(ample)) // a caller that still has the queue
}

func charging(d store.Demand) store.Demand {
	d.Charging = true
	return d
}
