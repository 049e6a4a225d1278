package fluxgate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// A rejected request is allowed after its RetryAfter and not before, a band is full after its
// FullAfter and not before, and has more tokens left after its MoreAfter and not before.
func TestTimesOfDecisions(t *testing.T) {
	checked := map[string]int{}
	for seed := range uint64(1_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		set, err := rules.NewSet("api", randomLimits(r)...)
		if err != nil {
			continue
		}
		w := &timed{gate: newGate(t, rulesOf(set)), seed: seed, checked: checked}
		w.clock.Advance(time.Duration(r.Int64N(int64(100 * 24 * time.Hour))).Truncate(time.Microsecond))
		var receipts []*fluxgate.Receipt
		for range 12 {
			cost := oneOf(r, 1, 1, 2, 5)
			d := w.check(fluxgate.Request{Cost: cost})
			switch {
			case d.Allowed && d.Receipt() != nil:
				receipts = append(receipts, d.Receipt())
			case d.Reason == fluxgate.ReasonLimited && r.IntN(2) == 0:
				p := w.check(fluxgate.Request{Cost: cost, Peek: true})
				w.after("a peek fits", p.RetryAfter, func() bool { return w.check(fluxgate.Request{Cost: cost, Peek: true}).Allowed })
			case d.Reason == fluxgate.ReasonLimited:
				w.after("the request fits", d.RetryAfter, func() bool { return w.check(fluxgate.Request{Cost: cost, Peek: true}).Allowed })
			}
			if len(receipts) > 0 && r.IntN(4) == 0 {
				if _, err := w.Settle(t.Context(), receipts[0], oneOf(r, 0, 1, 3, 20)); err != nil {
					t.Fatal(err)
				}
				receipts = receipts[1:]
			}
			if r.IntN(2) == 0 {
				w.clock.Advance(time.Duration(r.Int64N(oneOf(r, 1e6, 1e9, 60e9, 3600e9))).Truncate(time.Microsecond))
			}
			p := w.check(fluxgate.Request{Peek: true})
			var bands []fluxgate.BandStatus
			for b := range p.Bands() {
				bands = append(bands, b)
			}
			k := r.IntN(len(bands))
			b, name := bands[k], fmt.Sprintf("%s.%s %s, %d of %d left and %d owed", bands[k].Rule.ID, bands[k].Band.Name(), bands[k].Band.Kind, bands[k].Remaining, bands[k].Limit, bands[k].Owed)
			switch r.IntN(6) {
			case 0:
				w.after(name+": full", b.FullAfter, func() bool { return w.band(k).FullAfter == 0 })
			case 1:
				if b.MoreAfter == 0 != (b.FullAfter == 0) {
					t.Errorf("seed %d, %s: more after %v, full after %v", seed, name, b.MoreAfter, b.FullAfter)
				}
				w.after(name+": more", b.MoreAfter, func() bool { return w.band(k).Remaining > b.Remaining })
			}
		}
	}
	if checked["early"] < 1_000 || checked["late"] < 1_000 {
		t.Errorf("checked %v", checked)
	}
}

// timed checks times on the clock of a gate.
type timed struct {
	*gate
	seed    uint64
	checked map[string]int
}

// after checks that something holds after a time and not before.
func (w *timed) after(what string, wait time.Duration, holds func() bool) {
	w.Helper()
	if wait == 0 {
		return
	}
	w.clock.Advance(wait - time.Microsecond)
	if wait > time.Microsecond {
		if w.checked["early"]++; holds() {
			w.Errorf("seed %d, %s: said %v, and it is so before", w.seed, what, wait)
		}
	}
	w.clock.Advance(time.Microsecond)
	if w.checked["late"]++; !holds() {
		w.Errorf("seed %d, %s: said %v, and it is not so then", w.seed, what, wait)
	}
}

// band is the band with a number.
func (w *timed) band(number int) fluxgate.BandStatus {
	d := w.check(fluxgate.Request{Peek: true})
	for b := range d.Bands() {
		if number--; number < 0 {
			return b
		}
	}
	panic("no such band")
}

func oneOf(r *rand.Rand, of ...int64) int64 { return of[r.IntN(len(of))] }

// randomLimits are up to three rules with limits over time of all kinds.
func randomLimits(r *rand.Rand) (list []rules.Rule) {
	for i := range 1 + r.IntN(3) {
		rule := rules.Rule{ID: fmt.Sprint("r", i), Priority: 10 - i}
		if r.IntN(5) == 0 {
			rule.CountRefused = true
			rule.Bands = []rules.Band{{Kind: rules.Quota, Capacity: oneOf(r, 1, 3, 10), Period: []rules.Period{"second", "minute", "hour", "day"}[r.IntN(4)]}}
			if r.IntN(2) == 0 {
				rule.Mode = rules.ModeAlternative
			}
			list = append(list, rule)
			continue
		}
		for j := range 1 + r.IntN(3) {
			b := rules.Band{Label: fmt.Sprint("b", j), Capacity: oneOf(r, 1, 3, 10, 100)}
			switch r.IntN(4) {
			case 0:
				b.Kind, b.Period = rules.Quota, []rules.Period{"second", "minute", "hour", "day", "week", "month"}[r.IntN(6)]
				b.Timezone = []string{"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"}[r.IntN(4)]
			case 1:
				b.Kind, b.Refill = rules.SlidingWindow, time.Duration(oneOf(r, 16, 160, 16_000, 1_600_000))*time.Millisecond
			default:
				b.RefillTokens, b.Refill = oneOf(r, 0, 1, 7), time.Duration(oneOf(r, 1_000, 777, 60_000, 3_600_000))*time.Millisecond
			}
			rule.Bands = append(rule.Bands, b)
		}
		rule.Overdraft = r.IntN(6) == 0
		list = append(list, rule)
	}
	return list
}

// A request whose alternatives are all over fits when the first of them does.
func TestRetryAfter_Alternatives(t *testing.T) {
	per := func(period rules.Period, capacity int64) rules.Rule {
		return with(alternative(string(period), capacity), func(r *rules.Rule) { r.Bands[0].Period = period })
	}
	for _, c := range []struct {
		name   string
		others []rules.Rule
		cost   int64
		want   time.Duration
		rule   string
	}{
		{"the first of two", nil, 1, time.Minute, "minute"},
		{"one that the cost never fits", []rules.Rule{per("second", 1)}, 2, time.Minute, "minute"},
		{"and a rule that rejects for longer", []rules.Rule{rule("hour", 5, 1)}, 1, time.Hour, "hour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, append([]rules.Rule{per("day", 2), per("minute", 2)}, c.others...))
			g.clock.Advance(g.clock.Now().Truncate(24 * time.Hour).Add(36 * time.Hour).Sub(g.clock.Now()))
			var d fluxgate.Decision
			for range 4 {
				d = g.check(fluxgate.Request{Cost: c.cost})
			}
			if d.Allowed || d.RetryAfter != c.want || d.RuleID != c.rule {
				t.Errorf("allowed %t, rule %s, retry after %v; want %v of %s", d.Allowed, d.RuleID, d.RetryAfter, c.want, c.rule)
			}
		})
	}
}

// Slots are all free when the last of their holders loses it, also for a request that gets none.
func TestResetAfter_Slots(t *testing.T) {
	g := newGate(t, []rules.Rule{{ID: "r", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 2, Hold: time.Hour}}}})
	for range 2 {
		g.check(fluxgate.Request{})
		g.clock.Advance(time.Minute)
	}
	d := g.check(fluxgate.Request{})
	if d.Allowed || d.ResetAfter != 59*time.Minute {
		t.Errorf("allowed %t, all slots are free after %v, want 59m", d.Allowed, d.ResetAfter)
	}
	for b := range d.Bands() {
		if b.Status != store.Rejected || b.MoreAfter != 0 {
			t.Errorf("%s: more after %v", b.Status, b.MoreAfter)
		}
	}
}
