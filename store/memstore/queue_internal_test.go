package memstore

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The queue returns the entry that is full first.
func TestQueue_Order(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var q queue
	var want []int64
	for range 500 {
		full := r.Int64N(200)
		q.push(&entry{queued: full})
		want = append(want, full)
	}
	for range 100 {
		later := q[0].queued + r.Int64N(100)
		want[slices.Index(want, q[0].queued)] = later
		q.delayFront(later)
	}
	slices.Sort(want)
	for i := range want {
		if got := q.popFront().queued; got != want[i] {
			t.Fatalf("entry %d is full at %d, want %d", i, got, want[i])
		}
	}
	if len(q) != 0 {
		t.Errorf("%d entries left", len(q))
	}
}

// inOrder fails the test unless every shard has the entries of its map in the
// queues of its rules, once, with none in front of its parent, and no more
// than it may; and unless its rules are in their orders and none is empty.
func inOrder(t *testing.T, s *Store) {
	t.Helper()
	for n := range s.shards {
		shard := &s.shards[n]
		if len(shard.entries) > shard.most {
			t.Fatalf("shard %d remembers %d entries; at most %d may be", n, len(shard.entries), shard.most)
		}
		if r := shard.spareRule; r != nil && (r.queue != nil || r.one[0] != nil) {
			t.Fatalf("shard %d: the spare rule holds %d entries", n, len(r.queue))
		}
		queued := 0
		for rule, r := range shard.rules {
			queued += len(r.queue)
			if r.rule != rule || len(r.queue) == 0 || r == shard.spareRule {
				t.Fatalf("shard %d: rule %v is kept as %v with %d entries (spare: %t)", n, rule, r.rule, len(r.queue), r == shard.spareRule)
			}
			for i, e := range r.queue {
				if shard.entries[e.id] != e || s.shardOf(e.id) != n {
					t.Fatalf("shard %d: the entry at %d of the queue is not the one in the map", n, i)
				}
				if i > 0 && r.queue[(i-1)/2].queued > e.queued {
					t.Fatalf("shard %d: the entry at %d of the queue is in front of its parent", n, i)
				}
				if e.queued < shard.due {
					t.Fatalf("shard %d: the entry at %d of the queue is due before the shard sweeps", n, i)
				}
				if e == shard.spare {
					t.Fatalf("shard %d: the spare entry is in use", n)
				}
			}
		}
		if queued != len(shard.entries) {
			t.Fatalf("shard %d remembers %d entries and has %d in its queues", n, len(shard.entries), queued)
		}
		for by := range shard.order {
			rules := shard.order[by].rules
			if len(rules) != len(shard.rules) {
				t.Fatalf("shard %d has %d rules and %d in order %d", n, len(shard.rules), len(rules), by)
			}
			for i, r := range rules {
				if shard.rules[r.rule] != r || r.at[by] != i {
					t.Fatalf("shard %d: rule %v at %d of order %d is not the one in the map, or does not know its place", n, r.rule, i, by)
				}
				parent := rules[max(0, i-1)/2]
				if by == byCount && len(parent.queue) < len(r.queue) || by == byFront && parent.queue[0].queued > r.queue[0].queued {
					t.Fatalf("shard %d: rule %v at %d of order %d is in front of its parent", n, r.rule, i, by)
				}
			}
		}
	}
}

// Random operations on small stores keep the queues in order. At the bound
// nearly every take evicts, often a bucket of the same request.
func TestQueue_RandomOperations(t *testing.T) {
	for _, most := range []int{1, 2, 3, 5, 20, 3 * shardBuckets} {
		r := rand.New(rand.NewPCG(uint64(most), 9))
		now := time.UnixMicro(1_700_000_000_123_457)
		buckets, err := New(Config{MaxBuckets: most, Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		bands := make([]store.ExactBand, 3)
		for i, b := range []rules.Band{rules.PerSecond(20), rules.PerMinute(50), {Capacity: 10, RefillTokens: 3, Refill: time.Second}} {
			if bands[i], err = b.Exact(i); err != nil {
				t.Fatal(err)
			}
		}
		var receipts []store.Takes
		for range 3_000 {
			var demands []store.Demand
			for _, caller := range r.Perm(12)[:1+r.IntN(7)] {
				d := store.Demand{Key: store.Key{RuleSet: "s", Rule: string(rune('a' + caller%5))}, Cost: r.Int64N(8), Shadow: r.IntN(5) == 0}
				binary.LittleEndian.PutUint64(d.Key.ID[:8], uint64(caller+1)*0x9e3779b97f4a7c15)
				d.Bands = bands[:1+r.IntN(len(bands))] // rules change
				d.MaxWait = time.Duration(r.IntN(3)) * time.Second
				demands = append(demands, d)
			}
			var out store.Outcome
			if err := buckets.Take(t.Context(), demands, &out); err != nil {
				t.Fatal(err)
			}
			inOrder(t, buckets)
			checkTaken(t, demands, &out)
			if takes := store.NewTakes(demands, &out); takes != nil {
				receipts = append(receipts, takes)
			}
			switch i := r.IntN(10); {
			case i == 0:
				now = now.Add(time.Duration(r.IntN(3_000)) * time.Millisecond)
			case i == 1:
				now = now.Add(-time.Duration(r.IntN(500)) * time.Millisecond)
			case i == 2:
				_, err = buckets.Reset(t.Context(), store.Reset{Key: demands[0].Key})
			case i == 3 && r.IntN(20) == 0:
				_, err = buckets.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "s"}})
			case i < 6 && len(receipts) > 0:
				_, err = buckets.Settle(t.Context(), receipts[0], receipts[0].Same(r.Int64N(10)))
				receipts = receipts[1:]
			case i == 6:
				err = buckets.Peek(t.Context(), demands, &out)
			}
			if err != nil {
				t.Fatal(err)
			}
			inOrder(t, buckets)
		}
	}
}

// checkTaken fails the test unless what was taken is gone from what is left,
// and what was rejected does not fit.
func checkTaken(t *testing.T, demands []store.Demand, out *store.Outcome) {
	t.Helper()
	admitted := true
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		admitted = admitted && (d.Shadow || result.Status == store.OK)
		for j, left := range result.Bands {
			most := d.Bands[j].Capacity
			if out.Admitted() && result.Status == store.OK {
				most -= d.Cost
			}
			if left.Remaining < 0 || left.Remaining > most {
				t.Fatalf("%d left of %d after taking %d (%v)", left.Remaining, d.Bands[j].Capacity, d.Cost, result.Status)
			}
		}
		if result.Status == store.Rejected && result.Wait <= d.MaxWait {
			t.Fatalf("rejected, though it would wait %v of %v", result.Wait, d.MaxWait)
		}
	}
	if admitted != out.Admitted() {
		t.Fatalf("admitted %t, by its results %t", out.Admitted(), admitted)
	}
}
