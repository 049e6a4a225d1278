package bucket_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/ideal"
)

var steps = flag.Int("bucket.steps", 200_000, "random steps compared with exact rationals")

// randomBand draws a band from one per millisecond to 10^9 per 366 days, as
// people write them and as they do not. It returns false if the arithmetic
// refuses it.
func randomBand(r *rand.Rand, id uint32) (bucket.Band, bool) {
	periods := []time.Duration{
		time.Millisecond, 100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute,
		time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 366 * 24 * time.Hour,
	}
	period := periods[r.IntN(len(periods))]
	if r.IntN(3) == 0 {
		period = time.Millisecond + time.Duration(r.Int64N(int64(period)))
		period = period.Truncate([]time.Duration{time.Microsecond, time.Millisecond, time.Second}[r.IntN(3)])
	}
	number := func() int64 {
		ceilings := []int64{3, 20, 1_000, 100_000, 1_000_000_000}
		n := 1 + r.Int64N(ceilings[r.IntN(len(ceilings))])
		if r.IntN(2) == 0 { // round, as people write
			for n > 100 && n%10 != 0 {
				n -= n % 10
			}
		}
		return n
	}
	capacity := number()
	tokens := capacity
	if r.IntN(3) == 0 {
		tokens = number()
	}
	b, err := bucket.NewBand(id, capacity, tokens, period)
	return b, err == nil
}

type pending struct {
	bands  []bucket.Band
	booked bucket.Booking
}

// history is one bucket set and its ideal counterpart.
type history struct {
	t        *testing.T
	r        *rand.Rand
	now      int64
	last     int64 // the latest due tick of a take
	state    bucket.State
	bands    []bucket.Band
	ideals   []*ideal.Bucket
	receipts []pending
}

func (h *history) check(step int, what string) {
	h.t.Helper()
	var v bucket.View
	h.state.View(h.bands, h.now, &v)
	for i, d := range h.ideals {
		if want, whole := d.View(h.now).Used(); !whole || v.Levels[i] != want {
			h.t.Fatalf("step %d, %s, band %d of %d %+v: used %d units, the ideal bucket %d (whole: %t)",
				step, what, i, len(h.bands), h.bands[i], v.Levels[i], want, whole)
		}
	}
}

func (h *history) take() string {
	var v bucket.View
	h.state.View(h.bands, h.now, &v)
	cost := h.r.Int64N(min(h.bands[0].Capacity, 1+h.r.Int64N(1_000_000)) + 1)
	var maxWait int64
	if h.r.IntN(2) == 0 {
		maxWait = h.r.Int64N(bucket.MaxWait.Microseconds())
	}
	if cost > 0 && h.r.IntN(4) == 0 {
		least := 1 + h.r.Int64N(cost)
		want := cost
		for _, d := range h.ideals {
			want = min(want, d.View(h.now).Remaining())
		}
		want = max(want, least)
		if got := v.Grant(h.bands, least, cost); got != want {
			h.t.Fatalf("%d to %d tokens: granted %d, by the ideal buckets %d", least, cost, got, want)
		}
		cost = want
	}
	affordable := true
	var wait int64
	due := make([]int64, len(h.bands))
	for i, d := range h.ideals {
		affordable = affordable && cost <= d.Band.Capacity
		due[i] = d.View(h.now).Due(cost, h.now)
		wait = max(wait, due[i]-h.now)
	}
	if affordable != bucket.Affordable(h.bands, cost) {
		h.t.Fatalf("cost %d affordable: %t", cost, !affordable)
	}
	if !affordable {
		return "cost above capacity"
	}
	if got := v.Wait(h.bands, cost); got != wait {
		h.t.Fatalf("wait %d µs, the ideal bucket %d", got, wait)
	}
	if wait > maxWait {
		return "rejected"
	}
	v.Take(h.bands, cost)
	h.state.Store(h.bands, &v)
	for _, d := range h.ideals {
		d.Advance(h.now)
		d.Take(cost)
	}
	h.last = max(h.last, h.now+wait)
	h.receipts = append(h.receipts, pending{h.bands, bucket.Booking{Cost: cost, At: h.now, Due: due}})
	return "taken"
}

func (h *history) overdraw() string {
	var v bucket.View
	h.state.View(h.bands, h.now, &v)
	cost := 1 + h.r.Int64N(3*h.bands[0].Capacity)
	for i, d := range h.ideals {
		positive, wait := d.View(h.now).Positive(), h.bands[i].PositiveAfter(v.Levels[i], h.now)
		if positive != (wait == 0) || !d.View(h.now+wait).Positive() || wait > 0 && d.View(h.now+wait-1).Positive() {
			h.t.Fatalf("band %d is positive after %d µs, the ideal bucket is not", i, wait)
		}
	}
	tokens, changed := v.Overdraw(h.bands, cost)
	if !changed {
		return "at the largest debt"
	}
	h.state.Store(h.bands, &v)
	due := make([]int64, len(h.bands))
	for i, d := range h.ideals {
		d.Advance(h.now)
		d.Charge(cost)
		due[i] = h.now
	}
	if tokens > 0 {
		h.receipts = append(h.receipts, pending{h.bands, bucket.Booking{Cost: tokens, At: h.now, Due: due}})
	}
	return "overdrawn"
}

func (h *history) settle() string {
	if len(h.receipts) == 0 {
		return "nothing to settle"
	}
	i := h.r.IntN(len(h.receipts))
	p := h.receipts[i]
	h.receipts = append(h.receipts[:i], h.receipts[i+1:]...)
	if &p.bands[0] != &h.bands[0] {
		return "receipt of an older rule"
	}
	actual := h.r.Int64N(2*p.booked.Cost + 2)
	_, changed := h.state.Settle(h.bands, p.booked, actual, h.now)
	for i, d := range h.ideals {
		if changed {
			d.Advance(h.now)
		}
		switch back := p.booked.Cost - actual; {
		case back > 0:
			d.GiveBack(p.booked.Cost, back, p.booked.Due[i], max(h.now, h.last))
		case back < 0:
			d.Charge(-back)
		}
	}
	return "settled"
}

func (h *history) change() string {
	bands := make([]bucket.Band, len(h.bands))
	for i := range bands {
		bands[i] = h.bands[i]
		if b, ok := randomBand(h.r, uint32(i)); ok {
			bands[i] = b
		}
	}
	h.bands = bands
	var v bucket.View
	h.state.View(bands, h.now, &v)
	h.state = bucket.State{} // the former numbers do not come back
	h.state.Store(bands, &v)
	for i, d := range h.ideals {
		if bands[i] == d.Band {
			d.Advance(h.now)
			continue
		}
		// The rule changed now, or when the bucket was written, whichever leaves more.
		late := d.View(h.now)
		late.Change(bands[i])
		d.Change(bands[i])
		d.Advance(h.now)
		used, _ := d.Used()
		if less, _ := late.Used(); less < used {
			*d = *late
		}
	}
	return "band change"
}

func (h *history) pass() string {
	spans := []int64{1, 1_000, 50_000, 1_000_000, 60_000_000, 3_600_000_000, 400 * 24 * 3_600_000_000}
	h.now += h.r.Int64N(spans[h.r.IntN(len(spans))])
	return "time"
}

func TestArithmetic_EqualsRationals_NoRace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused, drawn := 0, 0
	done := map[string]int{}
	for step := 0; step < *steps; {
		h := &history{t: t, r: r, now: 1_700_000_000_000_000 + r.Int64N(1e12)}
		for len(h.bands) < 1+r.IntN(3) {
			drawn++
			b, ok := randomBand(r, uint32(len(h.bands)))
			if !ok {
				refused++
				continue
			}
			h.bands = append(h.bands, b)
			h.ideals = append(h.ideals, ideal.New(b, h.now))
		}
		for range 200 {
			var what string
			switch k := r.IntN(20); {
			case k < 9:
				what = h.take()
			case k < 12:
				what = h.settle()
			case k < 13:
				what = h.change()
			case k < 14:
				what = h.overdraw()
			default:
				what = h.pass()
			}
			h.check(step, what)
			done[what]++
			step++
		}
	}
	t.Logf("%d steps, 0 differences; %d of %d random bands refused; %v", *steps, refused, drawn, done)
	if refused == 0 || refused*2 > drawn {
		t.Errorf("%d of %d random bands refused: the draw no longer covers both sides", refused, drawn)
	}
	for _, what := range []string{"taken", "rejected", "settled", "band change", "cost above capacity", "overdrawn"} {
		if done[what] < *steps/200 {
			t.Errorf("%q happened %d times only", what, done[what])
		}
	}
}
