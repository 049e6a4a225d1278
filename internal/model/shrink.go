package model

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Shrink makes a history small that fails: it leaves out operations, gateways, rules,
// bands and callers, and simplifies numbers, for as long as it still fails.
func Shrink(h *History, fails func(*History) bool) *History {
	h = h.clone()
	h.Ops, h.Ends = h.core(), 0
	s := &shrinker{best: h, fails: fails}
	for again := true; again && s.tried < mostTries; {
		before := s.wins
		s.ops()
		s.gateways()
		s.versions()
		s.overrides()
		s.rules()
		s.callers()
		s.numbers()
		again = s.wins > before
	}
	s.best.rest()
	return s.best
}

// mostTries bounds how many histories are run to shrink one.
const mostTries = 4_000

type shrinker struct {
	best        *History
	fails       func(*History) bool
	tried, wins int
}

// try keeps a changed copy of the best history if it fails too.
func (s *shrinker) try(change func(h *History) bool) bool {
	if s.tried >= mostTries {
		return false
	}
	h := s.best.clone()
	if !change(h) {
		return false
	}
	for _, rules := range h.Versions {
		if len(rules) == 0 || !valid(rules) {
			return false
		}
	}
	s.tried++
	run := h.clone()
	run.rest()
	if !s.fails(run) {
		return false
	}
	s.best = h
	s.wins++
	return true
}

func (h *History) clone() *History {
	c := *h
	c.Gateways, c.Ops = slices.Clone(h.Gateways), slices.Clone(h.Ops)
	c.Versions, c.Overrides = slices.Clone(h.Versions), slices.Clone(h.Overrides)
	for i := range c.Overrides {
		c.Overrides[i] = slices.Clone(c.Overrides[i])
	}
	for i := range c.Versions {
		c.Versions[i] = slices.Clone(c.Versions[i])
		for j := range c.Versions[i] {
			c.Versions[i][j].Bands = slices.Clone(c.Versions[i][j].Bands)
		}
	}
	return &c
}

// ops leaves out operations: many at once first.
func (s *shrinker) ops() {
	for size := len(s.best.Ops) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.best.Ops); {
			if !s.try(func(h *History) bool {
				h.Ops = slices.Delete(h.Ops, from, min(from+size, len(h.Ops)))
				return true
			}) {
				from += size
			}
		}
	}
}

// gateways leaves out gateways. Others get their operations.
func (s *shrinker) gateways() {
	for i := len(s.best.Gateways) - 1; i >= 0; i-- {
		s.try(func(h *History) bool {
			if len(h.Gateways) == 1 {
				return false
			}
			h.Gateways = slices.Delete(h.Gateways, i, i+1)
			for k := range h.Ops {
				op := &h.Ops[k]
				op.Gateway, op.SettleAt = without(op.Gateway, i), without(op.SettleAt, i)
			}
			return true
		})
	}
}

func without(number, gone int) int {
	if number == gone {
		return 0
	}
	if number > gone {
		return number - 1
	}
	return number
}

// versions leaves out versions of the rules.
func (s *shrinker) versions() {
	for i := len(s.best.Versions) - 1; i >= 0; i-- {
		s.try(func(h *History) bool {
			if len(h.Versions) == 1 {
				return false
			}
			h.Versions = slices.Delete(h.Versions, i, i+1)
			if i < len(h.Overrides) {
				h.Overrides = slices.Delete(h.Overrides, i, i+1)
			}
			h.Ops = slices.DeleteFunc(h.Ops, func(op Op) bool { return op.Kind == OpRules && op.Version == i })
			for k := range h.Ops {
				if op := &h.Ops[k]; op.Version > i {
					op.Version--
				}
			}
			return true
		})
	}
}

// overrides leaves out overrides, and their ends.
func (s *shrinker) overrides() {
	for i := range s.best.Overrides {
		for k := len(s.best.Overrides[i]) - 1; k >= 0; k-- {
			if !s.try(func(h *History) bool {
				h.Overrides[i] = slices.Delete(h.Overrides[i], k, k+1)
				return true
			}) {
				s.try(func(h *History) bool {
					ends := h.Overrides[i][k].Until > 0
					h.Overrides[i][k].Until = 0
					return ends
				})
			}
		}
	}
	s.try(func(h *History) bool {
		none := len(h.Overrides) > 0 && !slices.ContainsFunc(h.Overrides, func(list []Override) bool { return len(list) > 0 })
		h.Overrides = nil
		return none
	})
}

// rules leaves out rules and bands, and what is special about them.
func (s *shrinker) rules() {
	for _, r := range slices.Clone(s.best.Versions[0]) {
		s.try(func(h *History) bool {
			for i := range h.Versions {
				h.Versions[i] = slices.DeleteFunc(h.Versions[i], func(o rules.Rule) bool { return o.ID == r.ID })
			}
			h.Ops = slices.DeleteFunc(h.Ops, func(op Op) bool { return op.Rule == r.ID })
			return true
		})
		for k := range r.Bands {
			s.eachRule(r.ID, func(o *rules.Rule) {
				if at := slices.IndexFunc(o.Bands, func(b rules.Band) bool { return b.Label == r.Bands[k].Label && b.Label != "" }); at >= 0 {
					o.Bands = slices.Delete(o.Bands, at, at+1)
				} else if k < len(o.Bands) {
					o.Bands = slices.Delete(o.Bands, k, k+1)
				}
			})
		}
		s.eachRule(r.ID, func(o *rules.Rule) { o.Paths = nil })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Priority = 0 })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Group = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Mode = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.CountRefused, o.Mode = false, "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.OnFailure = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Consistency = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.OnLimitExceed = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Overdraft = false })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Cost = "" })
		s.eachRule(r.ID, func(o *rules.Rule) { o.Scope = rules.ScopeGlobal })
	}
}

// eachRule changes a rule in all versions.
func (s *shrinker) eachRule(id string, change func(*rules.Rule)) {
	s.try(func(h *History) bool {
		changed := false
		for i := range h.Versions {
			for j := range h.Versions[i] {
				if r := &h.Versions[i][j]; r.ID == id {
					before := ruleText(r)
					change(r)
					changed = changed || before != ruleText(r)
				}
			}
		}
		return changed
	})
}

// callers makes all callers one.
func (s *shrinker) callers() {
	for _, caller := range []string{"c", "b"} {
		s.try(func(h *History) bool {
			changed := false
			for i := range h.Ops {
				if op := &h.Ops[i]; op.Caller == caller {
					op.Caller, changed = "a", true
				}
			}
			return changed
		})
	}
}

// set tries a value in place of another.
func set[T comparable](s *shrinker, at func(h *History) *T, values ...T) {
	for _, v := range values {
		if s.try(func(h *History) bool {
			p := at(h)
			if *p == v {
				return false
			}
			*p = v
			return true
		}) {
			return
		}
	}
}

// numbers makes numbers small and times round.
func (s *shrinker) numbers() {
	set(s, func(h *History) *time.Duration { return &h.Begins }, 0)
	if s.best.Redis.Nodes > 0 {
		set(s, func(h *History) *bool { return &h.Redis.Cluster }, false)
		set(s, func(h *History) *int { return &h.Redis.Nodes }, 1, 2)
		set(s, func(h *History) *int { return &h.Redis.Shards }, 4)
	}
	for i := range s.best.Gateways {
		at := func(h *History) *Gateway { return &h.Gateways[i] }
		set(s, func(h *History) *time.Duration { return &at(h).SeesResets }, 0)
		set(s, func(h *History) *time.Duration { return &at(h).SeesRules }, 0)
		set(s, func(h *History) *time.Duration { return &at(h).SeesFleet }, 0)
		set(s, func(h *History) *time.Duration { return &at(h).MaxWait }, 0)
		set(s, func(h *History) *bool { return &at(h).Leases }, false)
		set(s, func(h *History) *bool { return &at(h).Waits }, false)
		set(s, func(h *History) *time.Duration { return &at(h).Ahead }, 0)
		set(s, func(h *History) *time.Duration { return &at(h).Latency }, 200*time.Microsecond)
	}
	for i := 0; i < len(s.best.Ops); i++ {
		at := func(h *History) *Op { return &h.Ops[min(i, len(h.Ops)-1)] }
		op := *at(s.best)
		set(s, func(h *History) *int { return &at(h).N }, fewer(op.N)...)
		set(s, func(h *History) *time.Duration { return &at(h).Span }, round(op.Span)...)
		set(s, func(h *History) *time.Duration { return &at(h).Lasts }, 0)
		set(s, func(h *History) *time.Duration { return &at(h).Leaves }, 0)
		set(s, func(h *History) *bool { return &at(h).Renew }, false)
		set(s, func(h *History) *bool { return &at(h).Again }, false)
		set(s, func(h *History) *bool { return &at(h).Gone }, false)
		set(s, func(h *History) *int { return &at(h).SettleAt }, All)
		set(s, func(h *History) *int { return &at(h).Gateway }, 0)
		if op.Kind == OpCheck {
			set(s, func(h *History) *string { return &at(h).Path }, "")
			set(s, func(h *History) *int { return &at(h).With }, fewer(op.With+1)...)
			set(s, func(h *History) *int { return &at(h).With }, 0)
			set(s, func(h *History) *bool { return &at(h).Denied }, false)
			set(s, func(h *History) *int64 { return &at(h).Cost }, 1)
			set(s, func(h *History) *int64 { return &at(h).Actual }, Never, 1)
			set(s, func(h *History) *int64 { return &at(h).Tokens }, 1)
			set(s, func(h *History) *int64 { return &at(h).ActualTokens }, 0)
		}
		s.earlier(i)
	}
}

// fewer are smaller numbers to try.
func fewer(n int) (all []int) {
	for _, k := range []int{1, n / 4, n / 2, n - 1} {
		if k > 0 && k < n {
			all = append(all, k)
		}
	}
	return all
}

// round are rounder times to try.
func round(d time.Duration) (all []time.Duration) {
	for _, to := range []time.Duration{0, time.Second, 100 * time.Millisecond, 10 * time.Millisecond} {
		if to == 0 {
			all = append(all, 0)
		} else if r := d.Truncate(to); r != d && r > 0 {
			all = append(all, r)
		}
	}
	return all
}

// earlier moves an operation and those after it to a round time after the one before.
func (s *shrinker) earlier(i int) {
	for _, gap := range []time.Duration{0, 100 * time.Millisecond, time.Second, 2 * time.Second} {
		if s.try(func(h *History) bool {
			if i >= len(h.Ops) {
				return false
			}
			before := time.Duration(0)
			if i > 0 {
				before = h.Ops[i-1].At
			}
			by := h.Ops[i].At - (before + gap)
			if by <= 0 {
				return false
			}
			for k := i; k < len(h.Ops); k++ {
				h.Ops[k].At -= by
			}
			return true
		}) {
			return
		}
	}
}
