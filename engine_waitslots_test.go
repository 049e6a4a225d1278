package fluxgate_test

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// crowd sends n equal requests at once. It counts how many are rejected, and
// the others are held until the end of the test.
func crowd(t *testing.T, engine *fluxgate.Engine, n int, req fluxgate.Request) (held int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var rejected, passed atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			own := req
			switch d, err := engine.Check(ctx, &own); {
			case err == nil && d.Allowed:
				passed.Add(1)
			case err == nil:
				rejected.Add(1)
			}
		})
	}
	synctest.Wait() // no time passes
	t.Cleanup(func() { cancel(); wg.Wait() })
	if passed.Load() > 0 {
		t.Errorf("%d requests passed at once", passed.Load())
	}
	return n - int(rejected.Load())
}

// emptied is an engine with these rules whose buckets of these requests have
// no token left.
func emptied(t *testing.T, slots int, list []rules.Rule, requests ...fluxgate.Request) *fluxgate.Engine {
	t.Helper()
	engine := waiting(t, list, fluxgate.WithWaiting(time.Hour, slots))
	for _, req := range requests {
		if d := check(t, engine, req); !d.Allowed || d.Wait > 0 {
			t.Fatalf("the first request of %+v: %+v", req, answerOf(&d))
		}
	}
	return engine
}

var ann, bob = fluxgate.Request{UserID: "ann"}, fluxgate.Request{UserID: "bob"}

// The requests that wait for one bucket take at most a tenth of the slots,
// rounded up, so that others find some.
func TestWaitSlots_OneBucket(t *testing.T) {
	for slots, share := range map[int]int{1: 1, 2: 1, 10: 1, 11: 2, 100: 10, 1000: 100} {
		synctest.Test(t, func(t *testing.T) {
			engine := emptied(t, slots, []rules.Rule{queueing("q", time.Second)}, ann, bob)
			if held := crowd(t, engine, slots+5, ann); held != share {
				t.Errorf("of %d slots one bucket takes %d, want %d", slots, held, share)
			}
			if held, want := crowd(t, engine, slots+5, bob), min(share, slots-share); held != want {
				t.Errorf("of %d slots the next bucket takes %d, want %d", slots, held, want)
			}
		})
	}
}

// A GLOBAL rule is a queue in front of something that all share: it may use all
// slots.
func TestWaitSlots_Global(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		global := with(queueing("q", time.Second), func(r *rules.Rule) { r.Scope = rules.ScopeGlobal })
		engine := emptied(t, 100, []rules.Rule{global}, ann)
		if held := crowd(t, engine, 120, ann); held != 100 {
			t.Errorf("of 100 slots a GLOBAL rule takes %d", held)
		}
	})
}

// A GLOBAL rule for which the user's function names callers has a bucket for
// each of them, and those have a share. Callers that it does not name share
// one, which may use all slots.
func TestWaitSlots_GlobalWithIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		global := with(queueing("q", time.Second), func(r *rules.Rule) { r.Scope = rules.ScopeGlobal })
		engine := waiting(t, []rules.Rule{global}, fluxgate.WithWaiting(time.Hour, 100),
			fluxgate.WithIdentity(func(_ *rules.Rule, req *fluxgate.Request) string {
				if req.UserID == "" && !req.IP.IsValid() {
					return "a request of nothing, which no caller sends"
				}
				return req.UserID
			}))
		unnamed := fluxgate.Request{IP: netip.MustParseAddr("203.0.113.7")}
		check(t, engine, ann)
		check(t, engine, unnamed)
		if held := crowd(t, engine, 120, ann); held != 10 {
			t.Errorf("a caller that was named takes %d of 100 slots, want 10", held)
		}
		if held := crowd(t, engine, 120, unnamed); held != 90 {
			t.Errorf("the callers without a name take %d of 90 slots", held)
		}
	})
}

// Only a rule that would hold the request gives its bucket a share: one that
// rejects or only measures does not.
func TestWaitSlots_OtherRulesDoNotCount(t *testing.T) {
	global := with(queueing("q", time.Second), func(r *rules.Rule) { r.Scope = rules.ScopeGlobal })
	for name, c := range map[string]struct {
		other rules.Rule
		held  int
	}{
		"holds":    {queueing("other", time.Second), 10},
		"rejects":  {with(rule("other", 0, 1000), func(r *rules.Rule) { r.Scope = rules.ScopeUser }), 100},
		"measures": {with(queueing("other", time.Second), func(r *rules.Rule) { r.Mode = rules.ModeShadow }), 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := emptied(t, 100, []rules.Rule{global, c.other}, ann)
				if held := crowd(t, engine, 120, ann); held != c.held {
					t.Errorf("%d requests are held, want %d", held, c.held)
				}
			})
		})
	}
}

// A request that does not find a slot in one bucket takes none in another, and
// a request that is gone has given all of its own back.
func TestWaitSlots_GivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byUser := queueing("by-user", time.Second)
		byIP := with(queueing("by-ip", time.Second), func(r *rules.Rule) { r.Scope = rules.ScopeIP })
		here := netip.MustParseAddr("203.0.113.7")
		annHere, bobHere := fluxgate.Request{UserID: "ann", IP: here}, fluxgate.Request{UserID: "bob", IP: here}
		annThere := fluxgate.Request{UserID: "ann", IP: netip.MustParseAddr("203.0.113.8")}
		engine := emptied(t, 20, []rules.Rule{byUser, byIP}, annHere)
		if held := crowd(t, engine, 1, annThere); held != 1 {
			t.Fatal("the first request is not held")
		}
		if held := crowd(t, engine, 5, annHere); held != 1 {
			t.Errorf("%d more requests of one user are held, want 1 of her 2", held)
		}
		// The address has one of its two left: those of ann that were
		// rejected took none.
		if held := crowd(t, engine, 5, bobHere); held != 1 {
			t.Errorf("%d requests of another user at her address are held, want 1", held)
		}
		time.Sleep(time.Minute) // all are gone
		check(t, engine, annHere)
		if held := crowd(t, engine, 5, annHere); held != 2 {
			t.Errorf("later %d requests are held, want 2", held)
		}
	})
}

// A peek says what would happen to the request and takes no slot.
func TestWaitSlots_Peek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := emptied(t, 20, []rules.Rule{queueing("q", time.Second)}, ann, bob)
		peek := fluxgate.Request{UserID: "ann", Cost: 1, Peek: true}
		for range 5 {
			if d := check(t, engine, peek); !d.Allowed || d.Wait != time.Second {
				t.Fatalf("a request that would be held: %+v", answerOf(&d))
			}
		}
		if held := crowd(t, engine, 5, ann); held != 2 {
			t.Errorf("after peeks %d requests are held, want 2", held)
		}
		if d := check(t, engine, peek); d.Allowed {
			t.Errorf("a request that would find no slot: %+v", answerOf(&d))
		}
		if d := check(t, engine, fluxgate.Request{UserID: "bob", Cost: 1, Peek: true}); !d.Allowed {
			t.Errorf("a request of another bucket: %+v", answerOf(&d))
		}
	})
}
