package model

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// find is the place of the n-th fact that fits, from 0 on, or -1.
func find(facts []Fact, n int, fits func(f *Fact) bool) int {
	for i := range facts {
		if fits(&facts[i]) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return -1
}

// edit changes the n-th fact that fits.
func edit(n int, fits func(f *Fact) bool, change func(f *Fact)) func([]Fact) []Fact {
	return func(facts []Fact) []Fact {
		i := find(facts, n, fits)
		if i < 0 {
			return nil
		}
		change(&facts[i])
		return facts
	}
}

// twice repeats the first fact that fits.
func twice(fits func(f *Fact) bool) func([]Fact) []Fact {
	return func(facts []Fact) []Fact {
		if i := find(facts, 0, fits); i >= 0 {
			return slices.Insert(facts, i+1, facts[i])
		}
		return nil
	}
}

// leavingOut removes the facts that fit.
func leavingOut(fits func(f *Fact) bool) func([]Fact) []Fact {
	return func(facts []Fact) []Fact {
		n := len(facts)
		if facts = slices.DeleteFunc(facts, func(f Fact) bool { return fits(&f) }); len(facts) == n {
			return nil
		}
		return facts
	}
}

// unwarned removes the n-th warning.
func unwarned(n int) func([]Fact) []Fact {
	return func(facts []Fact) []Fact {
		if i := find(facts, n, kind(StoreWarned)); i >= 0 {
			return slices.Delete(facts, i, i+1)
		}
		return nil
	}
}

// ok and refused are takes of requests at the store.
func ok(f *Fact) bool { return f.Kind == StoreTook && f.Check > 0 && f.Admitted && f.Answered }

func refused(f *Fact) bool { return f.Kind == StoreTook && f.Check > 0 && !f.Admitted }

func charges(f *Fact) bool {
	return f.Kind == StoreTook && f.Charge && len(f.Buckets) > 0 && f.Buckets[0].Granted > 0
}

// decidedAfter is decisions after a time.
func decidedAfter(at time.Duration) func(f *Fact) bool {
	return func(f *Fact) bool { return f.Kind == Decided && f.Began > at }
}

// later is facts after the first that fits.
func later(first, fits func(f *Fact) bool) func(f *Fact) bool {
	seen := false
	return func(f *Fact) bool {
		now := seen && fits(f)
		seen = seen || first(f)
		return now
	}
}

func kind(k FactKind) func(f *Fact) bool { return func(f *Fact) bool { return f.Kind == k } }

// more says that a band has so many tokens more than it has.
func more(band int, tokens int64) func(f *Fact) {
	return func(f *Fact) {
		b := &f.Buckets[0].Bands[band]
		e := &f.Buckets[0].Exact[band]
		b.Remaining += tokens
		b.FullAfter = max(0, b.FullAfter-e.Period*time.Duration(tokens)/time.Duration(e.Tokens))
	}
}

// overridden is a take under the numbers of an override.
func overridden(f *Fact) bool { return ok(f) && f.Caller == "a" && f.Version == 1 }

// decidedBy is decisions for a caller after a time.
func decidedBy(caller string, at time.Duration) func(f *Fact) bool {
	return func(f *Fact) bool { return f.Caller == caller && decidedAfter(at)(f) }
}

// multiplied lets a decision be by its rule with other capacities.
func multiplied(times int64) func(f *Fact) {
	return func(f *Fact) {
		rule := strict("r", hour, plan)
		if len(f.Rules[0].Bands) == 1 {
			rule = shared(strict("r", rules.PerSecond(400)))
		}
		rule.Bands = slices.Clone(rule.Bands)
		for i := range rule.Bands {
			rule.Bands[i].Capacity *= times
			rule.Bands[i].RefillTokens = rule.Bands[i].Capacity
		}
		f.Rules[0].Rule = &rule
	}
}

// fromLease is a request that a slice paid.
func fromLease(f *Fact) bool {
	return f.Kind == Decided && f.Allowed && len(f.Rules) > 0 && f.Rules[0].Source == store.FromLease
}

func fromFallback(f *Fact) bool {
	return f.Kind == Decided && f.Allowed && len(f.Rules) > 0 && f.Rules[0].Source == store.FromFallback
}

// sliceOf is a take that has tokens for later.
func sliceOf(f *Fact) bool {
	return f.Kind == StoreTook && !f.Charge && f.Answered && f.Buckets[0].Granted > f.Buckets[0].Min && f.Buckets[0].Min > 0
}

var variants = map[string]variant{
	"a bucket refills too fast":          {"limits", LineExact, edit(5, ok, more(0, 1))},
	"a bucket loses the rest of a token": {"limits", LineExact, edit(15, ok, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter += 20 * time.Millisecond })},
	"a bucket refuses what fits": {"two rules", LineExact, edit(3, ok, func(f *Fact) {
		f.Admitted, f.Buckets[0].Status, f.Buckets[0].Granted, f.Buckets[1].Granted = false, store.Rejected, 0, 0
	})},
	"a quota refills before its end": {"limits", LineExact, edit(8, ok, more(1, 5))},
	"a window forgets a slot":        {"window", LineExact, edit(0, refused, func(f *Fact) { f.Admitted, f.Buckets[0].Status, f.Buckets[0].Granted = true, store.OK, 1 })},
	"a reservation is due too early": {"wait", LineExact, edit(12, ok, func(f *Fact) { f.Buckets[0].Wait, f.Buckets[0].Bands[0].Wait = 0, 0 })},
	"an expired bucket is not full":  {"idle", LineExact, edit(0, later(func(f *Fact) bool { return f.At > 15*time.Second }, ok), more(0, -2))},
	"a rule outlives its end": {"until", LineUntil, edit(0, decidedAfter(2*time.Second), func(f *Fact) {
		f.Rules = append(f.Rules, RuleFact{Rule: &rules.Rule{ID: "r", Bands: []rules.Band{burst}}})
	})},
	"a rule ends early":                    {"until", LineUntil, edit(0, decidedAfter(time.Second), func(f *Fact) { f.Rules = f.Rules[1:] })},
	"an override refills":                  {"override", LineChange, edit(0, overridden, func(f *Fact) { f.Buckets[0].Bands[0].Remaining, f.Buckets[0].Bands[0].FullAfter = 200, 0 })},
	"an override of another caller":        {"override", LineOverride, edit(0, decidedBy("b", time.Second), multiplied(2))},
	"an override does not apply":           {"override", LineOverride, edit(0, decidedBy("a", time.Second), multiplied(1))},
	"an override outlives its end":         {"override", LineOverride, edit(0, decidedBy("a", 2*time.Second), multiplied(2))},
	"a slice is kept under old numbers":    {"leased override", LineOverride, edit(0, func(f *Fact) bool { return fromLease(f) && f.Version == 1 }, multiplied(1))},
	"a new bucket is not full":             {"limits", LineAbsent, edit(0, ok, more(1, -1))},
	"a rejection takes":                    {"limits", LineRejection, edit(0, later(refused, ok), more(0, -1))},
	"a refused request takes one bucket":   {"two rules", LineAllOrNothing, edit(0, refused, func(f *Fact) { f.Buckets[1].Granted = 1 })},
	"a refused request keeps its tokens":   {"limits", LineAllOrNothing, edit(4, func(f *Fact) bool { return f.Kind == Decided && f.Allowed }, func(f *Fact) { f.Allowed, f.Reason = false, fluxgate.ReasonStoreFailure })},
	"a call is sent again":                 {"limits", LineOnce, twice(ok)},
	"a late answer counts":                 {"limits", LineDecision, edit(4, ok, func(f *Fact) { f.Answered = false })},
	"a shadow rule vetoes":                 {"shadow", LineDecision, edit(0, func(f *Fact) bool { return f.Kind == Decided && f.Rules[1].Status == store.Rejected }, func(f *Fact) { f.Allowed, f.Reason = false, fluxgate.ReasonLimited })},
	"a shadow rule vetoes at the store":    {"shadow", LineDecision, edit(0, func(f *Fact) bool { return ok(f) && f.Buckets[1].Status == store.Rejected }, func(f *Fact) { f.Admitted = false })},
	"a rule is not asked":                  {"two rules", LineDecision, edit(0, func(f *Fact) bool { return f.Kind == Decided && !f.Allowed }, func(f *Fact) { f.Allowed = true })},
	"a refund is above what was taken":     {"settle", LineSettlement, edit(0, func(f *Fact) bool { return f.Kind == StoreSettled && f.Buckets[0].Returned > 0 }, func(f *Fact) { f.Buckets[0].Returned += 3 })},
	"a charge is above the largest debt":   {"a window again", LineSettlement, edit(0, kind(StoreSettled), func(f *Fact) { f.Buckets[0].Charged = 4 })},
	"a settlement is of the wrong band":    {"settle", LineSettlement, edit(0, later(func(f *Fact) bool { return f.Kind == StoreSettled && f.Buckets[0].Returned > 0 }, ok), func(f *Fact) { more(0, -6)(f); more(1, 6)(f) })},
	"a receipt is settled twice":           {"twice", LineSettlement, edit(0, func(f *Fact) bool { return f.Kind == Settled && f.Again }, func(f *Fact) { f.Err = nil })},
	"an impossible cost uses the receipt":  {"impossible", LineSettlement, edit(0, func(f *Fact) bool { return f.Kind == Settled && f.Again }, func(f *Fact) { f.Err = fluxgate.ErrSettled })},
	"a caller is told a larger refund":     {"settle", LineSettlement, edit(0, kind(Settled), func(f *Fact) { f.Settlements[rules.MeasureRequests] = store.Settlement{Returned: 7} })},
	"a settlement is not sent":             {"settle", LineConservation, unsettled},
	"an overdraft is not debited":          {"overdraft", LineOverdraft, edit(0, refused, more(0, 30))},
	"a charge is sent twice":               {"outage", LineCharge, twice(charges)},
	"a charge is cut by another band":      {"outage", LineCharge, edit(0, charges, func(f *Fact) { f.Buckets[0].Granted = 1 })},
	"a charge is debt":                     {"outage", LineCharge, edit(0, charges, func(f *Fact) { f.Buckets[0].Granted *= 100 })},
	"only the crossing take warns":         {"warnings", LineWarning, unwarned(0)}, // its answer is lost
	"a mark of warnings outlives a period": {"warnings", LineWarning, unwarned(1)},
	"settlements do not warn":              {"warnings", LineWarning, unwarned(2)},
	"a mark of warnings has no capacity":   {"warnings", LineWarning, unwarned(3)},
	"warnings have no mark":                {"warnings", LineWarning, twice(kind(StoreWarned))},
	"warnings of a lower level":            {"warnings", LineWarning, edit(0, kind(StoreWarned), func(f *Fact) { f.Warning.Used = 39 })},
	"warnings fail":                        {"warnings", LineWarning, edit(3, kind(StoreWarned), func(f *Fact) { f.Kind = WarnFailed })},
	"a charge is not sent":                 {"outage", LineConservation, uncharged},
	"a refund above what was charged":      {"settle after an outage", LineCharge, edit(0, func(f *Fact) bool { return f.Kind == StoreSettled && f.Buckets[0].Fallback }, func(f *Fact) { f.Buckets[0].Returned *= 2 })},
	"hits are counted twice":               {"hits counted in an outage", LineCharge, twice(func(f *Fact) bool { return f.Kind == StoreSettled && f.Buckets[0].Charged > 0 })},
	"a fallback has all of the limit":      {"outage", LineShare, edit(0, kind(FallbackTook), func(f *Fact) { f.Buckets[0].Exact[0].Capacity *= 2 })},
	"a gateway stays with its fallback":    {"outage", LineRecovery, edit(0, fromFallback, func(f *Fact) { f.Began, f.At = f.Began+5*time.Second, f.At+5*time.Second })},
	"a fallback hands out without end":     {"outage", LineBound, endless},
	"a slice is spent after its end":       {"leases", LineLease, lateSlices},
	"a lease hands out more than it has":   {"leases", LineLease, everyTwice(fromLease)},
	"a lease is spent by another gateway":  {"leases", LineLease, edit(0, fromLease, func(f *Fact) { f.Gateway = 7 })},
	"leases hand out beyond their bound":   {"leases", LineBound, everyTwice(fromLease)},
	"a saturated bucket is not used":       {"leases", LineUsed, unused},
	"a refusal outlives its second":        {"refusals", LineLiveness, oldRefusal},
	"a third request gets a slot": {"slots", LineSlots, edit(0, refused, func(f *Fact) {
		f.Admitted = true
		for i := range f.Buckets {
			f.Buckets[i].Status, f.Buckets[i].Granted = store.OK, 1
		}
	})},
	"a slot is released twice":              {"slots", LineSlots, edit(0, later(kind(StoreSettled), ok), more(0, 1))},
	"a renewed slot is lost after its hold": {"slots", LineSlots, edit(0, func(f *Fact) bool { return refused(f) && f.At > 1500*time.Millisecond }, func(f *Fact) { f.Buckets[0].Bands[0].Remaining = 2 })},
	"a renewal is refused":                  {"slots", LineSlots, edit(0, kind(StoreExtended), func(f *Fact) { f.SlotsHeld = false })},
	"a request stops renewing":              {"slots", LineRenewal, leavingOut(func(f *Fact) bool { return f.Kind == StoreExtended && f.At > time.Second })},
	"a rule change refills":                 {"change", LineChange, edit(0, func(f *Fact) bool { return ok(f) && f.Version == 1 }, func(f *Fact) { f.Buckets[0].Bands[0].Remaining, f.Buckets[0].Bands[0].FullAfter = 50, 0 })},
	"a rule change wipes a band":            {"change", LineChange, edit(0, func(f *Fact) bool { return ok(f) && f.Version == 1 }, func(f *Fact) { f.Buckets[0].Bands[1].Remaining = 39 })},
	"a rule change carries the number over": {"change", LineChange, edit(0, func(f *Fact) bool { return ok(f) && f.Version == 1 }, more(0, -5))},
	"half of the gateways ignore a reset":   {"reset", LineReset, oldBuckets},
	"a reset leaves something used":         {"reset", LineAbsent, edit(0, func(f *Fact) bool { return ok(f) && f.Buckets[0].Generation == 1 }, more(0, -3))},
	"a clock that steps back refills":       {"clock", LineClock, edit(0, later(kind(ClockStepped), func(f *Fact) bool { return f.Kind == StoreTook }), more(0, 5))},
	"the clock of a gateway decides":        {"limits", LineExact, edit(12, ok, more(0, 3))},
}

// unsettled is a system whose settlements do not reach the store.
func unsettled(facts []Fact) []Fact {
	returned := int64(0)
	for i := range facts {
		if f := &facts[i]; f.Kind == StoreSettled {
			returned += f.Buckets[0].Returned
		}
	}
	facts = leavingOut(func(f *Fact) bool { return f.Kind == StoreSettled && f.Buckets[0].Returned > 0 })(facts)
	return inTheEnd(facts, -returned)
}

// uncharged is a system that charges nothing after an outage.
func uncharged(facts []Fact) []Fact {
	charged := int64(0)
	for i := range facts {
		if f := &facts[i]; charges(f) {
			charged += f.Buckets[0].Granted
		}
	}
	return inTheEnd(leavingOut(charges)(facts), charged)
}

// inTheEnd lets the last look show so many tokens more.
func inTheEnd(facts []Fact, tokens int64) []Fact {
	for i := range facts {
		if f := &facts[i]; f.Kind == StorePeeked {
			more(0, tokens)(f)
			more(1, tokens)(f)
		}
	}
	return facts
}

// endless repeats what the fallback granted.
func endless(facts []Fact) []Fact {
	i := find(facts, 0, fromFallback)
	if i < 0 {
		return nil
	}
	return slices.Insert(facts, i, slices.Repeat([]Fact{facts[i]}, 120)...)
}

// everyTwice repeats each fact that fits.
func everyTwice(fits func(f *Fact) bool) func([]Fact) []Fact {
	return func(facts []Fact) (all []Fact) {
		for i := range facts {
			all = append(all, facts[i])
			for range 3 {
				if fits(&facts[i]) {
					all = append(all, facts[i])
				}
			}
		}
		return all
	}
}

// lateSlices took its slices half a second earlier than it spends them.
func lateSlices(facts []Fact) []Fact {
	for i := range facts {
		if sliceOf(&facts[i]) {
			facts[i].Began -= 500 * time.Millisecond
		}
	}
	return facts
}

// unused refuses all but a few requests.
func unused(facts []Fact) []Fact {
	for i := range facts {
		if f := &facts[i]; f.Kind == Decided && f.Allowed && f.At > 100*time.Millisecond {
			f.Allowed, f.Reason = false, fluxgate.ReasonLimited
			f.Rules[0].Status, f.Rules[0].Granted = store.Rejected, 0
		}
	}
	return facts
}

// oldRefusal repeats a refusal when the bucket is full again.
func oldRefusal(facts []Fact) []Fact {
	i := find(facts, 0, func(f *Fact) bool { return f.Kind == Decided && !f.Allowed && f.Source == store.FromNegativeCache })
	if i < 0 {
		return nil
	}
	f := facts[i]
	f.Check, f.Began, f.At = 9999, f.Began+8*time.Second, f.At+8*time.Second
	f.Clock += (8 * time.Second).Microseconds()
	return append(facts, f)
}

// oldBuckets lets a gateway use the buckets of before a reset.
func oldBuckets(facts []Fact) []Fact {
	for i := range facts {
		for j := range facts[i].Buckets {
			if facts[i].Gateway == 1 {
				facts[i].Buckets[j].Generation = 0
			}
		}
	}
	return facts
}
