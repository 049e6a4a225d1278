package model

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	lasts     = flag.Duration("model", 0, "run random histories for this long")
	histories = flag.Uint64("histories", 0, "run so many random histories")
	firstSeed = flag.Uint64("seed", 0, "the seed of the first history, 0 for a random one")
	keepGoing = flag.Bool("all", false, "go on after a finding, and count findings by line")
	showFacts = flag.Bool("facts", false, "print the facts of the smallest history")
	onlyLine  = flag.String("line", "", "report findings of this line only, or with a - before it all others")
)

// finding is a history that breaks the specification.
type finding struct {
	history    *History
	violations []Violation
}

// search runs histories on all cores, from a seed on, until one is found that breaks the
// specification.
type search struct {
	next, most uint64
	until      time.Time
	only       func(seed uint64) bool // or nil

	mu       sync.Mutex
	covered  Coverage
	first    *finding
	byLine   map[Line]int
	examples map[Line]finding
	stop     atomic.Bool
}

func (s *search) run(t *testing.T) {
	s.byLine, s.examples = map[Line]int{}, map[Line]finding{}
	t.Run("histories", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := atomic.AddUint64(&s.next, 1) - 1; seed < s.most && !s.stop.Load(); seed = atomic.AddUint64(&s.next, 1) - 1 {
					if !s.until.IsZero() && time.Now().After(s.until) {
						return
					}
					if s.only != nil && !s.only(seed) {
						continue
					}
					s.one(t, seed)
				}
			})
		}
	})
}

// one runs the history of a seed.
func (s *search) one(t *testing.T, seed uint64) {
	h := Generate(seed)
	facts := Run(t, h)
	violations := wanted(Check(h, facts))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered.Add(h, facts)
	if len(violations) == 0 {
		return
	}
	lines := map[Line]bool{}
	for _, v := range violations {
		if !lines[v.Line] {
			lines[v.Line] = true
			t.Logf("seed %d: %v", seed, v)
			if s.byLine[v.Line]++; s.byLine[v.Line] == 1 {
				s.examples[v.Line] = finding{h, []Violation{v}}
			}
		}
	}
	if s.first == nil {
		s.first = &finding{h, violations}
	}
	s.stop.Store(!*keepGoing)
}

// wanted are the violations of the lines that were asked for.
func wanted(all []Violation) []Violation {
	if *onlyLine == "" {
		return all
	}
	line, except := strings.CutPrefix(*onlyLine, "-")
	return slices.DeleteFunc(all, func(v Violation) bool { return (string(v.Line) == line) == except })
}

// report shrinks the first finding and fails.
func (s *search) report(t *testing.T) {
	t.Helper()
	for line, n := range s.byLine {
		t.Logf("%s is broken in %d histories, first by seed %d: %v", line, n, s.examples[line].history.Seed, s.examples[line].violations[0])
	}
	if s.first == nil || *keepGoing && *onlyLine == "" {
		return
	}
	broken := s.first.violations[0]
	var last []Violation
	small := Shrink(s.first.history, func(h *History) bool {
		for range 2 { // the pauses of leases are random
			violations := Check(h, Run(t, h))
			if slices.ContainsFunc(violations, func(v Violation) bool { return v.Line == broken.Line }) {
				last = violations
				return true
			}
		}
		return false
	})
	text := ""
	for _, v := range last[:min(len(last), 10)] {
		text += v.String() + "\n"
	}
	if *showFacts {
		for _, f := range Run(t, small) {
			t.Log(f.String())
		}
	}
	t.Errorf("seed %d breaks the line %q of the specification: %v\nThe smallest history that does:\n%s%s\n%s", s.first.history.Seed, broken.Line, broken, small, text, small.Literal())
}

// A few fixed histories keep to the specification.
func TestHistories(t *testing.T) { keepToSpecification(t, 40) }

func TestHistories_NoRace(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	keepToSpecification(t, 400)
}

func keepToSpecification(t *testing.T, histories uint64) {
	*keepGoing = true
	s := &search{most: histories}
	s.run(t)
	for line, n := range s.byLine {
		example := s.examples[line]
		t.Errorf("%s is broken in %d histories, first by seed %d: %v", line, n, example.history.Seed, example.violations[0])
	}
}

// Random histories keep to the specification: see make model.
func TestRandomHistories(t *testing.T) {
	if *lasts == 0 && *histories == 0 {
		t.Skip("make model runs it")
	}
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	s := &search{next: first, most: 1 << 63}
	if *histories > 0 {
		s.most = first + *histories
	}
	if *lasts > 0 {
		s.until = time.Now().Add(*lasts)
	}
	t.Logf("the first seed is %d", first)
	s.run(t)
	t.Log(&s.covered)
	s.report(t)
	if missing := s.covered.Missing(); len(missing) > 0 && s.first == nil && s.covered.Histories >= 20_000 {
		t.Errorf("%d pairs never met", len(missing))
	}
}

// A history of the same seed has the same facts, but for the order of what happens at
// the same moment and the random pauses of leases.
func TestRun_Repeats(t *testing.T) {
	differ, most := 0, uint64(40)
	for seed := range most {
		h := Generate(seed)
		first := factLines(Run(t, h))
		for range 3 {
			if !slices.Equal(first, factLines(Run(t, h))) {
				differ++
				break
			}
		}
	}
	t.Logf("%d of %d differ", differ, most)
	if differ > 8 {
		t.Errorf("%d of %d histories differ when they run again", differ, most)
	}
}

func factLines(facts []Fact) []string {
	lines := make([]string, len(facts))
	for i := range facts {
		lines[i] = facts[i].String()
	}
	return lines
}

// A history that fails becomes small.
func TestShrink(t *testing.T) {
	charged := func(h *History) bool {
		return slices.ContainsFunc(Run(t, h), func(f Fact) bool { return f.Kind == StoreTook && f.Charge })
	}
	seed := uint64(1)
	for !charged(Generate(seed)) {
		seed++
	}
	small := Shrink(Generate(seed), charged)
	if n := len(small.core()); n > 2 || len(small.Gateways) > 1 || len(small.Versions[0]) > 1 {
		t.Errorf("a fault and a check are enough, but it is\n%v", small)
	}
}
