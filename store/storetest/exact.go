package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/ideal"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var exactChecks = []Check{
	{"I1 I2 every decision equals the ideal bucket", everyDecisionIsIdeal},
	{"I2 a fraction of a token is never lost", fractionsAreKept},
	{"I1 a burst is the capacity and not a token more", burstIsCapacity},
}

// twin is a bucket set and its bands as ideal buckets.
type twin struct {
	demand store.Demand
	ideals []*ideal.Bucket
	last   int64 // the latest due tick of a take
}

type openReceipt struct {
	of    *twin
	takes store.Takes
}

// everyDecisionIsIdeal plays random histories of requests over several rules
// with several bands, and compares every number of every answer.
func everyDecisionIsIdeal(t testing.TB, b Backend) {
	for seed := range uint64(12) {
		playHistory(newFixture(t, b), rand.New(rand.NewPCG(seed, 11)))
	}
}

func playHistory(f *fixture, r *rand.Rand) {
	var twins []*twin
	for range 3 {
		twins = append(twins, newTwin(f, r))
	}
	var receipts []openReceipt
	for step := range 120 {
		if r.IntN(3) > 0 {
			spans := []time.Duration{time.Millisecond, 80 * time.Millisecond, 3 * time.Second, 4 * time.Minute}
			f.Advance(time.Duration(r.Int64N(int64(spans[r.IntN(len(spans))]))).Truncate(time.Microsecond))
		}
		if len(receipts) > 0 && r.IntN(5) == 0 {
			i := r.IntN(len(receipts))
			settleTwin(f, r, receipts[i])
			receipts = append(receipts[:i], receipts[i+1:]...)
			continue
		}
		// One to three of the rules apply.
		r.Shuffle(len(twins), func(i, j int) { twins[i], twins[j] = twins[j], twins[i] })
		applying := twins[:1+r.IntN(3)]
		demands := make([]store.Demand, len(applying))
		cost := r.Int64N(6)
		for i, tw := range applying {
			demands[i] = tw.demand
			demands[i].Cost = cost
			demands[i].Shadow = r.IntN(6) == 0
			demands[i].Overdraft = r.IntN(10) == 0
			if cost > 0 && !demands[i].Overdraft && r.IntN(3) == 0 {
				demands[i].Min = 1 + r.Int64N(cost)
			}
			if r.IntN(3) == 0 && !demands[i].Overdraft {
				demands[i].MaxWait = time.Duration(r.Int64N(int64(time.Minute)))
			}
		}
		out := f.take(demands...)
		compare(f, step, applying, demands, out)
		if takes := store.NewTakes(demands, out); len(takes) == 1 && len(applying) == 1 {
			receipts = append(receipts, openReceipt{applying[0], takes})
		}
	}
}

func newTwin(f *fixture, r *rand.Rand) *twin {
	periods := []time.Duration{time.Millisecond, 70 * time.Millisecond, time.Second, 7 * time.Second, time.Minute, time.Hour}
	var bands []rules.Band
	for i := range 1 + r.IntN(3) {
		capacity := 1 + r.Int64N(20)
		bands = append(bands, band(string(rune('a'+i)), capacity, 1+r.Int64N(capacity), periods[r.IntN(len(periods))]))
	}
	tw := &twin{demand: f.demand(0, bands...)}
	now := f.peek(tw.demand).Results[0].Now
	for _, b := range tw.demand.Bands {
		tw.ideals = append(tw.ideals, ideal.New(b, now))
	}
	return tw
}

// grant is what a demand is decided for: what the ideal buckets have now, at
// least its minimum.
func (tw *twin) grant(d *store.Demand) int64 {
	grant := d.Cost
	for _, bucket := range tw.ideals {
		grant = min(grant, bucket.Remaining())
	}
	return max(grant, d.Minimum())
}

// compare compares an outcome with the ideal buckets and updates them.
func compare(f *fixture, step int, applying []*twin, demands []store.Demand, out *store.Outcome) {
	f.Helper()
	admitted, grants := true, make([]int64, len(applying))
	for i, tw := range applying {
		d, result := &demands[i], &out.Results[i]
		want := store.OK
		var wait time.Duration
		for _, bucket := range tw.ideals {
			bucket.Advance(result.Now)
		}
		grants[i] = tw.grant(d)
		for j := range tw.ideals {
			if grants[i] > d.Bands[j].Capacity && !d.Overdraft {
				want = store.TooCostly
			}
		}
		for j, bucket := range tw.ideals {
			if want == store.TooCostly {
				break
			}
			own := time.Duration(bucket.Due(grants[i], result.Now)-result.Now) * time.Microsecond
			if d.Overdraft {
				own = result.Bands[j].Wait
				if !bucket.Positive() {
					want = store.Rejected
				}
				debited := bucket.View(result.Now)
				debited.Charge(d.Cost) // the next one waits for its debit too
				if at := result.Now + own.Microseconds(); !debited.View(at).Positive() || own > 0 && debited.View(at-1).Positive() {
					f.Fatalf("step %d: band %d is positive after %v, the ideal bucket is not", step, j, own)
				}
			}
			if result.Bands[j].Wait != own {
				f.Fatalf("step %d: band %d waits %v, the ideal bucket %v", step, j, result.Bands[j].Wait, own)
			}
			wait = max(wait, own)
		}
		if d.Overdraft && want == store.OK {
			wait = 0 // that of its bands is of the next one
		}
		if want == store.OK && wait > d.MaxWait {
			want = store.Rejected
		}
		if result.Status != want {
			f.Fatalf("step %d: a demand for %d of %+v waiting %v is %v, the ideal bucket says %v",
				step, d.Cost, d.Bands, d.MaxWait, result.Status, want)
		}
		if want != store.TooCostly && result.Wait != wait {
			f.Fatalf("step %d: waits %v, the ideal bucket %v", step, result.Wait, wait)
		}
		admitted = admitted && (d.Shadow || want == store.OK)
	}
	if out.Admitted() != admitted {
		f.Fatalf("step %d: admitted %t, the ideal buckets say %t", step, out.Admitted(), admitted)
	}
	for i, tw := range applying {
		result := &out.Results[i]
		for j, bucket := range tw.ideals {
			switch {
			case demands[i].Overdraft:
				bucket.Charge(demands[i].Cost)
			case admitted && result.Status == store.OK:
				if result.Granted != grants[i] {
					f.Fatalf("step %d: granted %d, by the ideal buckets %d", step, result.Granted, grants[i])
				}
				tw.last = max(tw.last, bucket.Due(grants[i], result.Now))
				if grants[i] > 0 {
					bucket.Take(grants[i])
				}
			case result.Granted != 0:
				f.Fatalf("step %d: granted %d to a demand that was not admitted", step, result.Granted)
			}
			if got, want := result.Bands[j].Remaining, bucket.Remaining(); got != want {
				f.Fatalf("step %d: %d remain in %+v, in the ideal bucket %d", step, got, bucket.Band, want)
			}
			more := result.Bands[j].MoreAfter
			if left := bucket.Remaining(); more == 0 != bucket.Full() || more > 0 &&
				(bucket.View(result.Now+more.Microseconds()).Remaining() <= left || bucket.View(result.Now+more.Microseconds()-1).Remaining() > left) {
				f.Fatalf("step %d: more are left after %v, in the ideal bucket they are not", step, more)
			}
			if full := result.Bands[j].FullAfter; !bucket.View(result.Now+full.Microseconds()).Full() ||
				full > 0 && bucket.View(result.Now+full.Microseconds()-bucket.Band.Tick).Full() {
				f.Fatalf("step %d: full after %v, the ideal bucket is not", step, full)
			}
		}
	}
}

// settleTwin settles a receipt on the store and on the ideal buckets.
func settleTwin(f *fixture, r *rand.Rand, o openReceipt) {
	f.Helper()
	taken := o.takes[0]
	actual := r.Int64N(2*taken.Cost + 1)
	f.settleEach(o.takes, actual)
	probe := o.of.demand
	probe.Cost = 0
	result := f.peek(probe).Results[0]
	for j, bucket := range o.of.ideals {
		bucket.Advance(result.Now)
		switch back := taken.Cost - actual; {
		case back > 0:
			due := taken.At
			if taken.Due != nil {
				due = taken.Due[j]
			}
			bucket.GiveBack(taken.Cost, back, due, max(result.Now, o.of.last))
		case back < 0:
			bucket.Charge(-back)
		}
		if got, want := result.Bands[j].Remaining, bucket.Remaining(); got != want {
			f.Fatalf("settling %d tokens at %d leaves %d in %+v, in the ideal bucket %d", taken.Cost, actual, got, bucket.Band, want)
		}
	}
}

func fractionsAreKept(t testing.TB, b Backend) {
	for _, c := range []struct {
		capacity int64
		period   time.Duration
		every    time.Duration
		asks     int
		want     int
	}{
		// C + R·T/D, the last request a step before the end.
		{100, time.Minute, 500 * time.Millisecond, 600, 100 + 499},
		{10, time.Second, 90 * time.Millisecond, 600, 10 + 539},
		{1_000, time.Hour, 3 * time.Second, 400, 400},
	} {
		f := newFixture(t, b)
		d := f.demand(1, band("", c.capacity, c.capacity, c.period))
		admitted := 0
		for range c.asks {
			if f.take(d).Admitted() {
				admitted++
			}
			f.Advance(c.every)
		}
		want := min(c.asks, c.want)
		if admitted < want-1 || admitted > want+1 {
			t.Errorf("%d per %v asked %d times every %v admits %d, want %d ± 1", c.capacity, c.period, c.asks, c.every, admitted, want)
		}
	}
}

func burstIsCapacity(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 25, 1, time.Hour))
	if n := f.drain(d); n != 25 {
		t.Errorf("a full bucket of 25 gave %d", n)
	}
	f.Advance(time.Hour - time.Microsecond)
	f.mustReject(d)
	f.Advance(time.Microsecond)
	f.mustTake(d)
	f.mustReject(d)
	f.Advance(1000 * time.Hour)
	if n := f.drain(d); n != 25 {
		t.Errorf("a bucket of 25 that had a thousand hours to fill gave %d", n)
	}
}
