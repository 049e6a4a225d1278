package model

import (
	"slices"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// rules makes the first version of the rules.
func (g *generator) rules() {
	var list []rules.Rule
	if g.style == hot && g.chance(50) { // a limit of each caller, and one that all share
		g.h.Versions = [][]rules.Rule{{
			{ID: "r1", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerSecond(one[int64](g, 200, 400, 1_000))}},
			{ID: "r2", Scope: rules.ScopeGlobal, Bands: []rules.Band{rules.PerSecond(one[int64](g, 100, 200, 500))}},
		}}
		if g.paths {
			g.h.Versions[0][1].Paths = []string{path}
		}
		return
	}
	for i := range one(g, 1, 1, 2, 2, 3) {
		r := g.rule("r" + strconv.Itoa(i+1))
		for !valid([]rules.Rule{r}) {
			r = g.rule(r.ID)
		}
		if g.ending.IntN(100) < 8 {
			r.Until = endingAt(time.Duration(g.ending.IntN(8_000)) * time.Millisecond)
		}
		list = append(list, r)
	}
	g.h.Versions = [][]rules.Rule{list}
}

func valid(list []rules.Rule) bool {
	_, err := rules.NewSet(RuleSetID, list...)
	return err == nil
}

func (g *generator) rule(id string) rules.Rule {
	r := rules.Rule{ID: id, Scope: one(g, rules.ScopeGlobal, rules.ScopeUser, rules.ScopeUser, rules.ScopeIP)}
	r.Consistency = one(g, "", "", rules.ConsistencyAuto, rules.ConsistencyLeased, rules.ConsistencyStrict)
	if g.chance(25) {
		r.OnFailure = one(g, rules.FailOpen, rules.FailClosed)
	}
	if g.chance(10) {
		r.Mode = rules.ModeShadow
	}
	if g.chance(30) {
		r.OnLimitExceed = rules.WaitForRefill
	}
	if g.chance(20) {
		r.Cost = rules.MeasureTokens
	}
	if g.paths && g.chance(50) {
		r.Paths = []string{path}
	}
	labels := []string{"burst", "plan", "third", "fourth"}
	for i, b := range g.bands() {
		if g.chance(70) {
			b.Label = labels[i]
		}
		r.Bands = append(r.Bands, b)
	}
	if g.counting.IntN(100) < 12 {
		(&generator{Rand: g.counting}).countRefused(&r)
		return r
	}
	if g.chance(10) {
		r.Overdraft = !slices.ContainsFunc(r.Bands, func(b rules.Band) bool { return b.Kind == rules.Concurrency })
	}
	return r
}

// countRefused makes a rule count refused hits.
func (g *generator) countRefused(r *rules.Rule) {
	r.CountRefused, r.OnLimitExceed = true, ""
	r.Bands = []rules.Band{{Kind: rules.Quota, Capacity: one[int64](g, 1, 3, 10, 50), Period: one[rules.Period](g, "second", "minute", "hour")}}
	if r.Consistency == rules.ConsistencyLeased {
		r.Consistency = ""
	}
	if g.chance(40) {
		r.Mode = rules.ModeAlternative
	}
}

// bands makes the bands of a rule.
func (g *generator) bands() (bands []rules.Band) {
	switch g.style {
	case hot:
		if g.chance(80) {
			return []rules.Band{{Capacity: one[int64](g, 100, 200, 400, 1_000), Refill: time.Second}}
		}
	case slots:
		bands = append(bands, g.slots())
	case plans:
		bands = append(bands, rules.Band{Capacity: one[int64](g, 2, 5, 20), Refill: one(g, 200*time.Millisecond, time.Second)})
		switch g.IntN(3) {
		case 0:
			bands = append(bands, rules.Band{Capacity: one[int64](g, 100, 500), Refill: time.Hour})
		case 1:
			bands = append(bands, rules.Band{Kind: rules.Quota, Capacity: one[int64](g, 100, 500), Period: "hour"})
		case 2:
			bands = append(bands, rules.Band{Kind: rules.SlidingWindow, Capacity: one[int64](g, 100, 500), Refill: 16 * time.Second})
		}
		if g.chance(70) {
			return bands
		}
	}
	for range max(1, one(g, 1, 1, 2, 2, 3)-len(bands)) {
		bands = append(bands, g.band())
	}
	return bands
}

func (g *generator) slots() rules.Band {
	return rules.Band{Kind: rules.Concurrency, Capacity: one[int64](g, 1, 2, 4, 10), Hold: one(g, 200*time.Millisecond, time.Second, 3*time.Second, 10*time.Second)}
}

// band makes a band: often one that some requests empty.
func (g *generator) band() rules.Band {
	capacity := one[int64](g, 1, 3, 10, 30, 100, 500)
	switch g.IntN(7) {
	case 0, 1:
		return rules.Band{Capacity: capacity, Refill: one(g, 200*time.Millisecond, time.Second, 5*time.Second)}
	case 2:
		return rules.Band{Capacity: one[int64](g, 200, 400, 2_000), Refill: time.Second}
	case 3:
		return rules.Band{Capacity: one[int64](g, 30, 100, 500), RefillTokens: one[int64](g, 0, 10), Refill: one(g, time.Minute, time.Hour)}
	case 4:
		return rules.Band{Kind: rules.Quota, Capacity: capacity, Period: one[rules.Period](g, "second", "minute", "hour")}
	case 5:
		return rules.Band{Kind: rules.SlidingWindow, Capacity: capacity, Refill: one(g, 160*time.Millisecond, 1600*time.Millisecond, 16*time.Second)}
	}
	return g.slots()
}

// overrides gives some histories overrides, which begin, change and end with versions of the
// rules, some of which differ in nothing else.
func (g *generator) overrides() {
	o := g.overriding
	if o.IntN(100) >= 25 {
		return
	}
	for range 1 + o.IntN(3) { // more versions, with the same rules
		from := o.IntN(len(g.h.Versions))
		g.h.Versions = append(g.h.Versions, slices.Clone(g.h.Versions[from]))
		g.add(Op{Kind: OpRules, At: time.Duration(o.Int64N(int64(g.lasts))), Version: len(g.h.Versions) - 1, Gateway: All})
	}
	for _, list := range g.h.Versions {
		var of []Override
		for _, r := range list {
			if o.chance(60) {
				over := Override{Rule: r.ID, Caller: one(o, g.callers...), Times: one[rules.Times](o, 10, 100, 500, 2_000, 3_500, 10_000)}
				if o.chance(30) {
					over.Until = time.Duration(1 + o.Int64N(int64(g.lasts)))
				}
				of = append(of, over)
			}
		}
		g.h.Overrides = append(g.h.Overrides, of)
	}
}

// changed changes the rules in one respect.
func (g *generator) changed(former []rules.Rule) []rules.Rule {
	list := slices.Clone(former)
	for i := range list {
		list[i].Bands = slices.Clone(list[i].Bands)
	}
	r := &list[g.IntN(len(list))]
	b := &r.Bands[g.IntN(len(r.Bands))]
	if b.Kind == rules.Concurrency && g.chance(50) {
		b.Hold = one(g, 100*time.Millisecond, 500*time.Millisecond, 5*time.Second)
		return list
	}
	kinds := 9
	if r.CountRefused {
		kinds = 3 // other changes make it another rule
	}
	switch g.IntN(kinds) {
	case 0, 1, 2:
		b.Capacity = max(1, b.Capacity*one[int64](g, 1, 2, 5, 20, 100)/10)
		if b.Kind == rules.Concurrency {
			b.Capacity = min(b.Capacity, 100)
		}
	case 3: // another kind or other numbers
		label := b.Label
		*b = g.band()
		b.Label = label
		r.Overdraft = false
	case 4:
		switch b.Kind {
		case rules.Concurrency:
			b.Hold = one(g, 100*time.Millisecond, 500*time.Millisecond, 5*time.Second)
		case rules.Quota:
			b.Period = one[rules.Period](g, "second", "minute", "hour")
		default:
			b.Refill = one(g, 160*time.Millisecond, 1600*time.Millisecond, time.Minute)
		}
	case 5:
		r.Scope = one(g, rules.ScopeGlobal, rules.ScopeUser, rules.ScopeIP)
	case 6:
		if added := g.band(); len(r.Bands) < 4 && (!r.Overdraft || added.Kind != rules.Concurrency) {
			added.Label = "added" + strconv.Itoa(len(g.h.Versions))
			r.Bands = append(r.Bands, added)
		}
	case 7:
		if len(r.Bands) > 1 {
			r.Bands = r.Bands[1:]
		}
	case 8:
		fresh := g.rule(r.ID)
		fresh.Bands = r.Bands
		fresh.Overdraft = false
		if fresh.CountRefused {
			fresh.CountRefused, fresh.Mode = false, ""
		}
		*r = fresh
	}
	return list
}
