package redisstore

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// spoiledCall is a call of three requests that take one token each, and a settlement, with the answer to them.
func spoiledCall(t *testing.T) (c *scriptCall, answer []byte) {
	bands := exactBands(t, rules.PerMinute(10))
	c = new(scriptCall)
	answer = appendDoubles(nil, 1_700_000_000_123_456)
	for _, key := range []string{"a", "b", "c"} {
		take := newShardRequest(opTake, 0, time.Time{})
		take.demands, take.keys = []store.Demand{{Bands: bands, Cost: 1}}, []string{key}
		c.batch = append(c.batch, take)
		answer = appendDoubles(append(answer, 1, byte(store.OK)), 0)
	}
	settle := newShardRequest(opSettle, 0, time.Time{})
	settle.takes, settle.actual, settle.keys = []store.Taken{{Bands: bands, Cost: 3}}, []int64{1}, []string{"a"}
	c.batch = append(c.batch, settle)
	c.build(0)
	return c, appendDoubles(answer, 2)
}

// An answer that the script cannot have given to a request fails that request. If the answer
// ends too early, it fails the requests whose answers are missing.
func TestAnswer_OneSpoiled(t *testing.T) {
	const one = 2 + 8 // admitted, status, level
	for name, c := range map[string]struct {
		spoil func(answer []byte) []byte
		want  [4]bool
		fails bool
	}{
		"nothing": {func(a []byte) []byte { return a }, [4]bool{}, false},
		"a level of 2^60": {func(a []byte) []byte {
			return append(appendDoubles(a[:8+one+2], 1<<60), a[8+2*one:]...)
		}, [4]bool{1: true}, false},
		"a level that is no number": {func(a []byte) []byte {
			copy(a[8+2*one+2:], appendBits(math.NaN()))
			return a
		}, [4]bool{2: true}, false},
		"an unknown status":          {func(a []byte) []byte { a[8+1] = 9; return a }, [4]bool{0: true}, false},
		"a settlement of 2^60":       {func(a []byte) []byte { return appendDoubles(a[:len(a)-8], -1<<60) }, [4]bool{3: true}, false},
		"the end is missing":         {func(a []byte) []byte { return a[:len(a)-1] }, [4]bool{3: true}, false},
		"the second half is missing": {func(a []byte) []byte { return a[:8+one+5] }, [4]bool{1: true, 2: true, 3: true}, false},
		"the time is no number":      {func(a []byte) []byte { copy(a, appendBits(math.Inf(1))); return a }, [4]bool{}, true},
		"nothing is there":           {func([]byte) []byte { return nil }, [4]bool{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			call, answer := spoiledCall(t)
			_, err := call.read(string(c.spoil(answer)))
			if c.fails != errors.Is(err, errAnswer) {
				t.Fatalf("the error is %v", err)
			}
			for i, r := range call.batch {
				if err == nil && r.spoiled != c.want[i] {
					t.Errorf("request %d is spoiled: %t, want %t", i, r.spoiled, c.want[i])
				}
			}
		})
	}
}

func appendBits(x float64) (b []byte) {
	for i := range 8 {
		b = append(b, byte(math.Float64bits(x)>>(8*i)))
	}
	return b
}

// A key of holders that has a value of another kind leaves its own request undecided, and the
// others of the call as they are: they are decided, and have their tokens.
func TestScript_ForeignHolders(t *testing.T) {
	client := newScriptClient(t, testenv.SharedStandalone(t))
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{}))
	slots := rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute}
	for name, bands := range map[string][]rules.Band{
		"slots alone":      {slots},
		"tokens and slots": {{Label: "tokens", Capacity: 100, Refill: time.Hour}, slots},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := p.demand("foreign", 1, bands...)
			foreign.Holder = store.HolderID{1}
			key := p.name(foreign)
			holders := holdersOf(key)
			if err := client.RPush(t.Context(), holders, "x").Err(); err != nil {
				t.Fatal(err)
			}
			take := p.newRequest(opTake, 0, []store.Demand{foreign}, nil, time.Time{})
			settle := newShardRequest(opSettle, 0, time.Time{})
			p.addTake(settle, &store.Taken{Key: foreign.Key, Bands: foreign.Bands, Cost: 2, At: 1, Holder: foreign.Holder}, 1)
			renew := newShardRequest(opSettle, 0, time.Time{})
			p.addTake(renew, &settle.takes[0], renewSlots)
			other := p.demand("other", 1, rules.Band{Capacity: 5, Refill: time.Hour})
			first := p.newRequest(opTake, 0, []store.Demand{other}, nil, time.Time{})
			last := p.newRequest(opTake, 0, []store.Demand{other}, nil, time.Time{})
			if _, err := client.decide(0, first, settle, renew, take, last); err != nil {
				t.Fatalf("the call failed: %v", err)
			}
			if take.statuses[0] != store.Unavailable || !take.nothingReadable() || renew.tokens[0] != 0 {
				t.Errorf("the request is %v and renewed %v, want neither decided nor renewed", take.statuses, renew.tokens)
			}
			for _, r := range []*shardRequest{first, last} {
				if !r.admitted || r.statuses[0] != store.OK {
					t.Errorf("another request is %v", r.statuses)
				}
			}
			if left := p.left(other); left != 3 {
				t.Errorf("%d tokens left, want 3 of 5", left)
			}
			if kind := client.Type(t.Context(), holders).Val(); kind != "list" {
				t.Errorf("the key is a %s now", kind)
			}
			client.Del(t.Context(), holders)
		})
	}
}

// Settlements at extreme costs fail by themselves, and no decision of another caller with them.
func TestSettle_ExtremeCostsBesideOthers(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{Timeout: patience}))
	slot := p.demand("slots", 1, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1_000, Hold: time.Minute})
	slot.Holder = store.HolderID{1}
	takes := store.NewTakes([]store.Demand{slot}, p.take(slot))
	others := make(chan error)
	done := make(chan struct{})
	for range 8 {
		go func() {
			d := p.demand("plan", 1, rules.Band{Capacity: 1_000_000, Refill: time.Hour})
			var failed error
			for {
				select {
				case <-done:
					others <- failed
					return
				default:
					failed = errors.Join(failed, p.Take(t.Context(), []store.Demand{d}, new(store.Outcome)))
				}
			}
		}()
	}
	for range 200 {
		for _, c := range []struct{ cost, actual int64 }{{1, 1 << 60}, {1 << 60, 1}, {1, math.MaxInt64}, {1, store.MaxCost + 1}} {
			take := takes[0]
			take.Cost = c.cost
			if _, err := p.Settle(t.Context(), store.Takes{take}, []int64{c.actual}); !errors.Is(err, store.ErrDemand) {
				t.Fatalf("settling %d at %d has the error %v", c.cost, c.actual, err)
			}
		}
		if err := store.SettleError(p.Settle(t.Context(), takes, []int64{store.MaxCost})); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	for range 8 {
		if err := <-others; err != nil {
			t.Error("another caller failed:", err)
		}
	}
}
