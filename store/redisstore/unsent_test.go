package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// standstill keeps all calls from starting, as calls do that are not answered, until the returned function
// is called: what is queued is not sent.
func (p probe) standstill(shard int) (end func()) {
	q := p.nodes.queue(shard)
	q.mu.Lock()
	q.gathering = true
	q.mu.Unlock()
	return func() {
		q.mu.Lock()
		q.gathering = false
		q.pump()
		q.mu.Unlock()
	}
}

// heldSlot is a take of a token and a slot of one request.
func (p probe) heldSlot(capacity int64) (d store.Demand, takes store.Takes) {
	d = p.demand("slots", 1, rules.Band{Label: "tokens", Capacity: 1_000, Refill: 24 * time.Hour},
		rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: capacity, Hold: time.Hour})
	d.Holder = store.HolderID{1}
	takes = store.NewTakes([]store.Demand{d}, p.take(d))
	d.Holder = store.HolderID{2} // of others
	return d, takes
}

func (p probe) leftOf(d store.Demand) (tokens, slots int64) {
	p.t.Helper()
	var out store.Outcome
	must(p.t, p.Peek(p.t.Context(), []store.Demand{d}, &out))
	return out.Results[0].Bands[0].Remaining, out.Results[0].Bands[1].Remaining
}

// Requests that end while Redis does not answer for a moment give their slots back, and each is settled once,
// whether its settlement was in a call then or waited for one.
func TestSettle_Stall(t *testing.T) {
	for _, stall := range []time.Duration{150 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(fmt.Sprint(stall), func(t *testing.T) {
			server := testenv.StartStandalone(t, testenv.Config{})
			proxy := testenv.StartProxy(t, server.Addr())
			s := openStore(t, "redis://"+proxy.Addr(), Config{Timeout: 100 * time.Millisecond})
			set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Consistency: rules.ConsistencyStrict, Bands: []rules.Band{
				{Label: "tokens", Kind: rules.Quota, Capacity: 1_000_000, Period: "year"},
				{Label: "slots", Kind: rules.Concurrency, Capacity: 1_000, Hold: time.Hour},
			}}))
			engine := fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithRuleSet("api")))
			const n, actual = 200, 3
			var receipts []*fluxgate.Receipt
			for len(receipts) < n {
				d, err := engine.Check(t.Context(), &fluxgate.Request{Path: "/"})
				if err != nil {
					t.Fatal(err)
				}
				if !d.Degraded { // a busy machine
					receipts = append(receipts, d.Receipt())
				}
			}
			proxy.SetLatency(stall, 0)
			var all sync.WaitGroup
			for _, r := range receipts {
				all.Go(func() { _, _ = engine.Settle(t.Context(), r, actual) }) // an error is of one that may have run
			}
			all.Wait()
			proxy.SetLatency(0, 0)
			until(t, "all settlements are sent", func() bool { return engine.FallbackStats().PendingSettlements == 0 })
			p := probe{s, t, "api"}
			d := store.Demand{Key: receipts[0].Takes[0].Key, Bands: receipts[0].Takes[0].Bands, Cost: 1}
			stats := engine.FallbackStats()
			until(t, "the slots are free", func() bool {
				var out store.Outcome
				return p.Peek(t.Context(), []store.Demand{d}, &out) == nil && out.Results[0].Bands[1].Remaining == 1_000
			})
			tokens, _ := p.leftOf(d)
			if used := 1_000_000 - tokens; used != n*actual {
				t.Errorf("%d tokens are used, want %d; %d settlements may have run, or are lost", used, n*actual, stats.LostSettlements)
			}
		})
	}
}

// A settlement that was not sent in time is never sent by the store: the caller knows, and sends it again.
func TestSettle_NotSentInTime(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{Timeout: 200 * time.Millisecond}))
	d, takes := p.heldSlot(2)
	for name, leave := range map[string]bool{"the time ends": false, "the caller leaves": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := p.standstill(0)
			if leave {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			settled, err := p.Settle(ctx, takes, []int64{0})
			if err != nil || len(settled) != 1 || !errors.Is(settled[0].NotSent, store.ErrNotSent) || leave != errors.Is(settled[0].NotSent, context.Canceled) {
				t.Errorf("settled %+v, error %v", settled, err)
			}
			end()
			if tokens, slots := p.leftOf(d); tokens != 999 || slots != 1 { // after all that was queued before
				t.Errorf("%d tokens and %d slots are left, want those of the take to be missing", tokens, slots)
			}
			if waiting, lost := p.Unsent(); waiting != 0 || lost != 0 {
				t.Errorf("%d wait and %d are lost", waiting, lost)
			}
		})
	}
	settled, err := p.Settle(t.Context(), takes, []int64{0})
	if _, slots := p.leftOf(d); store.SettleError(settled, err) != nil || slots != 2 {
		t.Errorf("sent again it is %+v, error %v, and %d slots are left, want 2", settled, err, slots)
	}
}

// What a store gives back by itself, and cannot send, is sent later. So is a settlement whose call did not
// run when its caller had left.
func TestGiveBack_NotSent(t *testing.T) {
	for name, give := range map[string]func(p probe, takes store.Takes){
		"for a rejected request": func(p probe, takes store.Takes) { p.giveBack(takes) },
		"a settlement in a call that does not run": func(p probe, takes store.Takes) {
			r := newShardRequest(opSettle, 0, time.Now().Add(patience))
			p.addTake(r, &takes[0], 0)
			if !r.begin() {
				p.t.Fatal("it cannot be sent")
			}
			if never, ok := r.leave(); never || !ok {
				p.t.Fatal("its caller cannot leave")
			}
			p.again([]*shardRequest{r}, notNow, errors.New("LOADING"), "")
		},
		"a settlement that is refused": func(p probe, takes store.Takes) {
			r := newShardRequest(opSettle, 0, time.Now().Add(patience))
			p.addTake(r, &takes[0], 0)
			r.begin()
			r.leave()
			p.answer(r, fmt.Errorf("%w: OOM", store.ErrRefused))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{Timeout: 100 * time.Millisecond}))
			d, takes := p.heldSlot(2)
			end := p.standstill(0)
			give(p, takes)
			if waiting, lost := p.Unsent(); waiting != 1 || lost != 0 {
				t.Fatalf("%d wait and %d are lost, want one that waits", waiting, lost)
			}
			time.Sleep(3 * p.config.Timeout) // it is tried meanwhile
			end()
			until(t, "it is sent", func() bool { waiting, _ := p.Unsent(); return waiting == 0 })
			if tokens, slots := p.leftOf(d); tokens != 1_000 || slots != 2 {
				t.Errorf("%d tokens and %d slots are left, want all", tokens, slots)
			}
			if _, lost := p.Unsent(); lost != 0 {
				t.Errorf("%d are lost", lost)
			}
		})
	}
}

// A settlement that is sent after the slot was lost by time leaves the slot of another request alone.
func TestGiveBack_AfterHold(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{Timeout: 100 * time.Millisecond}))
	d := p.demand("slots", 1, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: 300 * time.Millisecond})
	d.Holder = store.HolderID{1}
	takes := store.NewTakes([]store.Demand{d}, p.take(d))
	other := d
	other.Holder = store.HolderID{2}
	other.Bands = exactBands(t, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour})
	until(t, "another request has the slot", func() bool { return p.take(other).Admitted() })
	if err := store.SettleError(p.Settle(t.Context(), takes, []int64{0})); err != nil {
		t.Fatal(err)
	}
	if left := p.left(d); left != 0 {
		t.Errorf("%d slots are left, want none", left)
	}
}

// A settlement for which there is no connection was not sent, also if a new connection is never answered.
func TestSettle_NoConnection(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, server.Addr())
	p := newProbe(t, openStore(t, "redis://"+proxy.Addr(), Config{Timeout: 200 * time.Millisecond}))
	d, takes := p.heldSlot(2)
	q := p.nodes.queue(0)
	former := q.client.Swap(p.nodes.target.connect(q.addr, p.config)) // without connections
	t.Cleanup(func() { _ = former.Close() })
	proxy.Blackhole(true)
	settled, err := p.Settle(t.Context(), takes, []int64{0})
	if err != nil || q.outage() != nil || !notSent(settled[0].NotSent) {
		t.Errorf("settled %+v, error %v, outage %+v", settled, err, q.outage())
	}
	proxy.Blackhole(false)
	until(t, "it is settled", func() bool {
		settled, err := p.Settle(t.Context(), takes, []int64{0})
		return store.SettleError(settled, err) == nil
	})
	if _, slots := p.leftOf(d); slots != 2 {
		t.Errorf("%d slots are left, want 2", slots)
	}
}

// A call of which a write failed was not sent, unless other commands were written with it: Redis
// runs whole commands only.
func TestScriptCall_FailedWrite(t *testing.T) {
	write := fmt.Errorf("redis: %w", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE})
	read := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for _, c := range []struct {
		call scriptCall
		err  error
		want callResult
	}{
		{scriptCall{encoded: true, alone: true}, write, notReached},
		{scriptCall{encoded: true}, write, mayHaveRun},
		{scriptCall{encoded: true, alone: true}, read, mayHaveRun},
		{scriptCall{encoded: true, alone: true}, context.DeadlineExceeded, mayHaveRun},
		{scriptCall{alone: true}, context.DeadlineExceeded, notReached},
	} {
		if got := c.call.resultOf(c.err); got != c.want {
			t.Errorf("%v of a call that is encoded %t and alone %t: %v, want %v", c.err, c.call.encoded, c.call.alone, got, c.want)
		}
	}
}
