package redisstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// slotSet is what the script should remember of the slots of a key.
type slotSet struct {
	at    int64 // of the last change
	until map[store.HolderID]int64
}

// held returns how many hold a slot, and when the first of them ends.
func (s *slotSet) held(now int64) (count, first, last int64) {
	for _, until := range s.until {
		if until > now {
			count++
			if first == 0 || until < first {
				first = until
			}
			last = max(last, until)
		}
	}
	return count, first, last
}

// change follows a clock that stepped back: holders have as much time left as before.
func (s *slotSet) change(now int64) {
	if s.at > now {
		for id := range s.until {
			s.until[id] -= s.at - now
		}
		s.at = now
	}
}

func (s *slotSet) hold(id store.HolderID, now, until int64) {
	s.change(now)
	s.at, s.until[id] = now, until
}

// slotHistory is a history of requests that hold slots, in Lua and in this test.
type slotHistory struct {
	t      *testing.T
	r      *rand.Rand
	client scriptClient
	now    int64
	keys   []string
	sets   map[string]*slotSet
	done   map[string]int
}

// bands has slots, alone or beside bands that never refuse.
func (h *slotHistory) bands(k int) []store.ExactBand {
	slots := fluxgate.Must(bucket.NewConcurrency(9, 1+int64(k%3), []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}[h.r.IntN(3)]))
	large := fluxgate.Must(bucket.NewQuota(1, 1e15, time.Hour))
	large.Edges = [3]int64{0, 1 << 52, 1<<52 + 1}
	tokens := fluxgate.Must(bucket.NewBand(2, 1_000_000, 1_000_000, time.Second))
	return [][]store.ExactBand{{slots}, {slots, large}, {tokens, slots}}[k/3%3]
}

// set is the slots of a key.
func (h *slotHistory) set(key string, bands []store.ExactBand) *slotSet {
	if len(bands) > 1 {
		key = holdersOf(key)
	}
	if h.sets[key] == nil {
		h.sets[key] = &slotSet{until: map[store.HolderID]int64{}}
	}
	return h.sets[key]
}

func (h *slotHistory) holder() (id store.HolderID) {
	id[3] = byte(h.r.IntN(5)) // 0 is none
	return id
}

// draw makes a take, a peek, a release or a renewal of one or two keys.
func (h *slotHistory) draw() *shardRequest {
	op := []byte{opTake, opTake, opTake, opPeek, opSettle, opSettle}[h.r.IntN(6)]
	next := newShardRequest(op, 0, time.Time{})
	for _, k := range h.r.Perm(len(h.keys))[:1+h.r.IntN(2)] {
		bands := h.bands(k)
		next.keys = append(next.keys, h.keys[k])
		if op == opSettle {
			next.takes = append(next.takes, store.Taken{Bands: bands, Cost: 2, At: h.now, Holder: h.holder()})
			next.actual = append(next.actual, []int64{2, -1}[h.r.IntN(2)])
			continue
		}
		d := store.Demand{Bands: bands, Cost: h.r.Int64N(4), Holder: h.holder(), Shadow: h.r.IntN(5) == 0}
		if d.Cost > 1 && h.r.IntN(3) == 0 {
			d.Min = 1
		}
		next.demands = append(next.demands, d)
	}
	return next
}

// replay makes the same request here, and compares.
func (h *slotHistory) replay(got *shardRequest) {
	if got.op == opSettle {
		for i := range got.takes {
			h.settle(got, i)
		}
		return
	}
	admitted, slots := true, got.slots
	statuses := make([]store.Status, len(got.demands))
	for i, d := range got.demands {
		set := h.set(got.keys[i], d.Bands)
		limit := d.Bands[slotBand(d.Bands)].Limit
		held, first, last := set.held(h.now)
		if held < limit {
			first = 0 // it is not looked up
		}
		if slots[0] != held || slots[1] != first || slots[2] != last {
			h.t.Fatalf("demand %+v at %d: %d slots are held until %d to %d in Lua, %d until %d to %d here", d, h.now, slots[0], slots[1], slots[2], held, first, last)
		}
		slots = slots[3:]
		if held >= limit && d.Cost > 0 && d.Holder != (store.HolderID{}) {
			statuses[i] = store.Rejected
			admitted = admitted && d.Shadow
		}
		h.done[statuses[i].String()]++
	}
	if admitted != got.admitted || !slices.Equal(statuses, got.statuses) {
		h.t.Fatalf("%+v at %d: %t and %v in Lua, %t and %v here", got.demands, h.now, got.admitted, got.statuses, admitted, statuses)
	}
	for i, d := range got.demands {
		if got.op != opTake || !admitted || statuses[i] != store.OK || d.Cost == 0 || d.Holder == (store.HolderID{}) {
			continue
		}
		set := h.set(got.keys[i], d.Bands)
		set.hold(d.Holder, h.now, h.now+d.Bands[slotBand(d.Bands)].Period.Microseconds())
		h.done["held"]++
	}
}

// settle releases or renews.
func (h *slotHistory) settle(got *shardRequest, i int) {
	t, renew := &got.takes[i], got.actual[i] == -1
	set := h.set(got.keys[i], t.Bands)
	set.change(h.now)
	until, tokens := set.until[t.Holder], int64(0)
	switch {
	case until <= h.now:
		h.done["not held"]++
	case renew:
		tokens = 1
		set.hold(t.Holder, h.now, max(until, h.now+t.Bands[slotBand(t.Bands)].Period.Microseconds()))
		h.done["renewed"]++
	default:
		delete(set.until, t.Holder)
		h.done["released"]++
	}
	if got.tokens[i] != tokens {
		h.t.Fatalf("%+v at %d: %d in Lua, %d here", *t, h.now, got.tokens[i], tokens)
	}
}

// compare compares the sorted sets: those who hold a slot, and the last change.
func (h *slotHistory) compare() {
	for key, set := range h.sets {
		stored, err := h.client.ZRangeWithScores(h.t.Context(), key, 0, -1).Result()
		if err != nil {
			h.t.Fatal(err)
		}
		in, want := map[store.HolderID]int64{}, maps.Clone(set.until)
		for _, member := range stored {
			if name := member.Member.(string); name != "at" && int64(member.Score) > h.now {
				in[store.HolderID([]byte(name))] = int64(member.Score)
			} else if name == "at" && int64(member.Score) != -set.at {
				h.t.Fatalf("%s was changed at %f in Lua, %d here", key, -member.Score, set.at)
			}
		}
		maps.DeleteFunc(want, func(_ store.HolderID, until int64) bool { return until <= h.now })
		if !maps.Equal(in, want) {
			h.t.Fatalf("%s: %v in Lua, %v here, at %d", key, in, want, h.now)
		}
	}
}

// The script gives, renews and releases slots as a log of who holds them says, also while the
// clock steps back.
func TestScript_Slots_NoRace(t *testing.T) {
	client := newScriptClient(t, testenv.StartStandalone(t, testenv.Config{}))
	h := &slotHistory{t: t, r: rand.New(rand.NewPCG(7, 8)), client: client, done: map[string]int{}}
	calls := *agreeSteps / 20
	for call := range calls {
		if call%50 == 0 {
			h.now, h.sets, h.keys = 1_700_000_000_000_000+h.r.Int64N(1e12), map[string]*slotSet{}, nil
			for k := range 9 {
				h.keys = append(h.keys, fmt.Sprintf("fluxgate:{slots}:%d:%d", call, k))
			}
		}
		switch h.r.IntN(12) {
		case 0:
			h.now -= h.r.Int64N(4_000_000)
			h.done["clock stepped back"]++
		case 1: // the moment at which a slot ends
			for _, set := range h.sets {
				if _, first, _ := set.held(h.now); first > 0 {
					h.now = first
					break
				}
			}
		default:
			h.now += h.r.Int64N(1_000_000)
		}
		requests := make([]*shardRequest, 1+h.r.IntN(4))
		for i := range requests {
			requests[i] = h.draw()
		}
		if _, err := client.decide(h.now, requests...); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(requests, func(x, y *shardRequest) int { return int(x.op/opSettle) - int(y.op/opSettle) })
		for _, got := range requests {
			h.replay(got)
		}
		h.compare()
	}
	t.Logf("%d calls: %v", calls, h.done)
	for _, what := range []string{"ok", "rejected", "held", "not held", "renewed", "released", "clock stepped back"} {
		if h.done[what] < calls/100 {
			t.Errorf("%q happened %d times only", what, h.done[what])
		}
	}
}

// A limit with another label continues the record at its place, also behind the concurrency
// band, whose slots are no record.
func TestScript_LabelBehindSlots(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{}))
	slots := rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute}
	d := p.demand("rule", 2, slots, rules.Band{Label: "before", Capacity: 3, Refill: 366 * 24 * time.Hour})
	d.Holder[0] = 1
	if out := p.take(d); !out.Admitted() {
		t.Fatalf("rejected: %+v", out)
	}
	d.Bands = exactBands(t, slots, rules.Band{Label: "after", Capacity: 3, Refill: 366 * 24 * time.Hour})
	var out store.Outcome
	if err := p.Peek(t.Context(), []store.Demand{d}, &out); err != nil || out.Results[0].Bands[1].Remaining != 1 || out.Admitted() {
		t.Errorf("%+v, %v; want 1 left of 3", out.Results[0], err)
	}
	d.Cost = 1
	if out := p.take(d); !out.Admitted() || out.Results[0].Bands[1].Remaining != 0 {
		t.Errorf("%+v, want the last taken", out.Results[0])
	}
}

// Slots that have ended are removed when the expiry of their set is renewed, so that the set
// of a busy key does not grow.
func TestScript_EndedSlots(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p, client := newProbe(t, openStore(t, server.URI(), Config{})), newScriptClient(t, server)
	const hold = 200 * time.Millisecond
	d := p.demand("rule", 1, rules.Band{Kind: rules.Concurrency, Capacity: 5, Hold: hold})
	for range 3 {
		d.Holder[0]++
		if out := p.take(d); !out.Admitted() {
			t.Fatalf("rejected: %+v", out)
		}
		time.Sleep(hold + hold/4) // it has ended, and its set expires after twice the hold
	}
	d.Holder[0]++
	p.take(d)
	if n := client.ZCard(t.Context(), holdersOf(p.name(d))).Val(); n != 2 {
		t.Errorf("%d members, want the last holder and the time of the last change", n)
	}
}

// Renewing a take that holds no slots succeeds, and changes nothing.
func TestScript_RenewWithoutSlots(t *testing.T) {
	client := newScriptClient(t, testenv.SharedStandalone(t))
	now, key := int64(1_700_000_000_000_000), "fluxgate:{renew}:"+t.Name()
	bands := []store.ExactBand{fluxgate.Must(bucket.NewBand(1, 3, 1, time.Hour))}
	take := newShardRequest(opTake, 0, time.Time{})
	take.demands, take.keys = []store.Demand{{Bands: bands, Cost: 1}}, []string{key}
	renew := newShardRequest(opSettle, 0, time.Time{})
	renew.takes, renew.keys, renew.actual = []store.Taken{{Bands: bands, Cost: 1, At: now}}, []string{key}, []int64{-1}
	if _, err := client.decide(now, take); err != nil {
		t.Fatal(err)
	}
	before := client.Get(t.Context(), key).Val()
	if _, err := client.decide(now+1, renew); err != nil || renew.tokens[0] != 1 {
		t.Errorf("renewed: %v, %v", renew.tokens, err)
	}
	if after := client.Get(t.Context(), key).Val(); after != before || before == "" {
		t.Errorf("the value changed from %x to %x", before, after)
	}
}

// Renewing or releasing a slot leaves the value of the other bands as it was written: how they
// carry over to other bands depends on when that was.
func TestScript_SlotsKeepValue(t *testing.T) {
	client, key, id := newScriptClient(t, testenv.SharedStandalone(t)), "fluxgate:{slots}:"+t.Name(), store.HolderID{1}
	bands := []store.ExactBand{fluxgate.Must(bucket.NewBand(1, 10, 1, time.Minute)), fluxgate.Must(bucket.NewConcurrency(2, 1, time.Minute))}
	take := newShardRequest(opTake, 0, time.Time{})
	take.demands, take.keys = []store.Demand{{Bands: bands, Cost: 3, Holder: id}}, []string{key}
	if _, err := client.decide(takenAt, take); err != nil {
		t.Fatal(err)
	}
	want := client.Get(t.Context(), key).Val()
	for _, actual := range []int64{renewSlots, 3} {
		settle := newShardRequest(opSettle, 0, time.Time{})
		settle.takes, settle.keys, settle.actual = []store.Taken{{Bands: bands, Cost: 3, At: takenAt, Holder: id}}, []string{key}, []int64{actual}
		if _, err := client.decide(takenAt+1_000, settle); err != nil {
			t.Fatal(err)
		}
		if got := client.Get(t.Context(), key).Val(); got != want || want == "" {
			t.Errorf("settled at %d: %x, want %x", actual, got, want)
		}
	}
}
