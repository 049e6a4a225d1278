package model

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Line is one line of the specification, by a short name.
type Line string

// The lines. The comments are the promises; bounds.go has the numbers.
const (
	// LineBound: no interval admits more than its bound and what the events in it add.
	LineBound Line = "bound"
	// LineExact: the store decides as an ideal bucket does (I1, I2).
	LineExact Line = "exact"
	// LineOnce: a call that may have run is not sent again.
	LineOnce Line = "once"
	// LineDecision: a gateway decides what the store said, and what a rule says holds.
	LineDecision Line = "decision"
	// LineUntil: a rule applies until its end by the clock of the store, and not after it.
	LineUntil Line = "until"
	// LineOverride: an override applies to its caller alone, until its end, in the fallback too.
	LineOverride Line = "override"
	// LineRejection: a rejected take changes nothing (I3).
	LineRejection Line = "rejection"
	// LineAllOrNothing: a request takes from all its buckets or from none (I4).
	LineAllOrNothing Line = "all-or-nothing"
	// LineAbsent: a bucket that is not stored is full (I5).
	LineAbsent Line = "absent-is-full"
	// LineChange: a change of numbers carries over what is used (I6).
	LineChange Line = "change"
	// LineClock: the store's clock decides, and a step back is no time (I8).
	LineClock Line = "clock"
	// LineReset: a reset fills what it names and nothing else, and all see it in time.
	LineReset Line = "reset"
	// LineConservation: in the end the store shows what was admitted, settled and lost.
	LineConservation Line = "conservation"
	// LineSettlement: a settlement moves the budget by its difference, once.
	LineSettlement Line = "settlement"
	// LineOverdraft: an overdraft is debited whatever the request becomes.
	LineOverdraft Line = "overdraft"
	// LineCharge: what the fallback granted is charged once, to each band its own part.
	LineCharge Line = "charge"
	// LineShare: without the store a gateway grants its share.
	LineShare Line = "share"
	// LineSlots: never more than the capacity hold slots, and lost ones come back.
	LineSlots Line = "slots"
	// LineRenewal: a request that renews keeps its slots.
	LineRenewal Line = "renewal"
	// LineLease: a slice is spent once, by its gateway, within the lease time.
	LineLease Line = "lease"
	// LineLiveness: no request is refused for longer than published while there are tokens.
	LineLiveness Line = "liveness"
	// LineUsed: a saturated bucket is used.
	LineUsed Line = "used"
	// LineWarning: a level at a threshold that a gateway has seen has its warning, once in a period.
	LineWarning Line = "warning"
	// LineTimes: a refused request fits after the time that its answer says, and a band is full after that
	// of its reset, and not before.
	LineTimes Line = "times"
	// LineRecovery: after a fault the store decides again in time.
	LineRecovery Line = "recovery"
)

// Violation is a fact that breaks a line of the specification.
type Violation struct {
	Line Line
	At   time.Duration
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Line, v.Text) }

// Check returns how the facts of a history break the specification.
func Check(h *History, facts []Fact) []Violation {
	s := newSpec(h, facts)
	if h.Redis.Nodes > 0 {
		s.checkRedis()
		return s.violations
	}
	s.checkStore()
	s.checkDecisions()
	s.checkMatching()
	s.checkRetries()
	s.checkEnds()
	s.checkCalendar()
	s.checkOverrides()
	s.checkNumbers()
	s.checkBounds()
	s.checkLeases()
	s.checkShares()
	s.checkSharesUsed()
	s.checkCharges()
	s.checkSettlements()
	s.checkGone()
	s.checkConservation()
	s.checkRenewals()
	s.checkUsed()
	s.checkWarnings()
	slices.SortStableFunc(s.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return s.violations
}

// spec is a history and its facts, and what the lines need of them.
type spec struct {
	*History
	facts      []Fact
	violations []Violation
	// bands are those of all versions, by rule.
	bands map[string][]band
	// takes are the takes of each request that ran at the store and were answered, and
	// fallback those of its fallback.
	takes, fallback, decided map[int]*Fact
	settled                  map[int]*Fact   // the first settlement of a request
	settling                 map[int][]*Fact // those at the store and the fallback
	faults                   []span
	said                     map[string]bool
	// uncharged is what bands could not be charged after an outage.
	uncharged map[string]map[uint32]*big.Rat
}

// band is a band of a rule, as it is written and as stores see it.
type band struct {
	rules.Band
	exact store.ExactBand
	rate  *big.Rat // what a token bucket regains in a tick
}

func newBand(b rules.Band, exact store.ExactBand) band {
	return band{b, exact, regained(&b, time.Duration(exact.Tick)*time.Microsecond)}
}

// span is a time in which something is not as usual for a gateway, or for All.
type span struct {
	gateway  int
	rule     string
	fault    Fault
	from, to time.Duration
}

func newSpec(h *History, facts []Fact) *spec {
	s := &spec{
		History: h, facts: facts, bands: map[string][]band{}, takes: map[int]*Fact{}, fallback: map[int]*Fact{},
		decided: map[int]*Fact{}, settled: map[int]*Fact{}, settling: map[int][]*Fact{}, uncharged: map[string]map[uint32]*big.Rat{}, said: map[string]bool{},
	}
	for version, rules := range h.Versions {
		for i := range rules {
			s.addBands(&rules[i], rules[i].Bands)
			for _, o := range h.overridesOf(version) {
				if o.Rule == rules[i].ID {
					s.addBands(&rules[i], h.numbers(version, &rules[i], bucketName(&rules[i], o.Caller), false))
				}
			}
		}
	}
	for i := range facts {
		f := &facts[i]
		switch f.Kind {
		case StoreTook:
			if f.Check > 0 && f.Answered && !f.Charge {
				s.takes[f.Check] = f
			}
		case FallbackTook:
			s.fallback[f.Check] = f
		case StoreSettled, FallbackSettled:
			s.settling[f.Check] = append(s.settling[f.Check], f)
		case Decided:
			s.decided[f.Check] = f
		case Settled:
			if s.settled[f.Check] == nil && !errors.Is(f.Err, fluxgate.ErrReceipt) && !errors.Is(f.Err, fluxgate.ErrCost) {
				s.settled[f.Check] = f // what is refused settles nothing
			}
		}
	}
	for i := range h.Ops {
		switch op := &h.Ops[i]; op.Kind {
		case OpFault:
			s.faults = append(s.faults, span{op.Gateway, op.Rule, op.Fault, op.At, op.At + op.Span})
		case OpStall:
			s.faults = append(s.faults, span{op.Gateway, "", "stall", op.At, op.At + op.Span})
		}
	}
	return s
}

// addBands adds the bands of a rule with some numbers.
func (s *spec) addBands(r *rules.Rule, numbers []rules.Band) {
	for j, b := range numbers {
		if exact, err := r.Exact(b, j); err == nil {
			s.bands[r.ID] = append(s.bands[r.ID], newBand(b, exact))
		}
	}
}

func (s *spec) violate(line Line, at time.Duration, format string, args ...any) {
	s.violations = append(s.violations, Violation{line, at, fmt.Sprintf(format, args...)})
}

// violateOnce is violate, once for each bucket.
func (s *spec) violateOnce(line Line, bucket string, at time.Duration, format string, args ...any) {
	if s.said[string(line)+bucket] {
		return
	}
	s.said[string(line)+bucket] = true
	s.violate(line, at, format, args...)
}

// bandOf is the band of a rule that a store was asked for. A charge has units of its own.
func (s *spec) bandOf(rule string, e *store.ExactBand) *band {
	for i := range s.bands[rule] {
		b := &s.bands[rule][i]
		if b.exact.ID == e.ID && b.exact.Kind == e.Kind && b.exact.Limit == e.Limit && b.exact.Period == e.Period && b.exact.Tokens == e.Tokens {
			return b
		}
	}
	return nil
}

// faultAt reports whether a gateway had a fault in a time.
func (s *spec) faultAt(gateway int, from, to time.Duration) bool {
	return slices.ContainsFunc(s.faults, func(f span) bool {
		return (f.gateway == gateway || f.gateway == All) && f.from <= to && from <= f.to
	})
}

func (b *band) kind() rules.BandKind { return kindOf(&b.Band) }
