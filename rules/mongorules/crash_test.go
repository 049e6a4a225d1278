package mongorules

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// steps records the calls of a source to the server, and calls a function before
// one of them.
type steps struct {
	mu   sync.Mutex
	all  []string
	at   int
	once func() error // called before the step, or nil
	dead error
}

func (s *steps) step(doing string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return s.dead // a killed writer makes no more calls
	}
	s.all = append(s.all, doing)
	if s.once != nil && len(s.all)-1 == s.at {
		act := s.once
		s.mu.Unlock()
		err := act()
		s.mu.Lock()
		s.dead = err
	}
	return s.dead
}

var errKilled = errors.New("the writer was killed")

func kill() error { return errKilled }

// scenario is an operation of a writer or a gateway.
type scenario struct {
	before func(f *fixture)
	do     func(ctx context.Context, s *Source) error
	// external is set if it imports an edit.
	external bool
}

func threeRules() []rules.Rule {
	return []rules.Rule{rule("a", 1), rule("b", 1), rule("c", 1)}
}

// otherRules change, drop, keep and add one rule each.
func otherRules() []rules.Rule {
	return []rules.Rule{rule("a", 2), rule("c", 1), rule("d", 1)}
}

var scenarios = map[string]scenario{
	"the first rules are put": {
		before: func(*fixture) {},
		do: func(ctx context.Context, s *Source) error {
			set, _ := rules.NewSet(setID, otherRules()...)
			_, err := s.Put(ctx, set, by(0))
			return err
		},
	},
	"rules are replaced": {
		before: func(f *fixture) { f.put(threeRules()...) },
		do: func(ctx context.Context, s *Source) error {
			set, _ := rules.NewSet(setID, otherRules()...)
			_, err := s.Put(ctx, set, by(1))
			return err
		},
	},
	"rules are deleted": {
		before: func(f *fixture) { f.put(threeRules()...) },
		do: func(ctx context.Context, s *Source) error {
			_, err := s.Delete(ctx, setID, by(1))
			return err
		},
	},
	"a lost collection is written again": {
		before: func(f *fixture) {
			f.put(threeRules()...)
			must(f.T, f.current().docs.Drop(f.Context()))
		},
		do: reconcileLost,
	},
	"a server imports an edit": {
		before: func(f *fixture) {
			f.put(threeRules()...)
			f.shell("a", set("bands.0.capacity", 2))
		},
		do:       func(ctx context.Context, s *Source) error { return reconcile(ctx, s) },
		external: true,
	},
	"a server completes an interrupted write": {
		before: func(f *fixture) {
			f.put(threeRules()...)
			left := &steps{at: -1}
			w := f.handle(Config{batch: 1, step: func(doing string) error {
				if doing == "writing documents" {
					return errKilled
				}
				return left.step(doing)
			}})
			_, err := w.Put(f.Context(), newSet(f, setID, otherRules()...), by(1))
			must(f.T, err)
		},
		do: func(ctx context.Context, s *Source) error { return reconcile(ctx, s) },
	},
}

// reconcileLost is reconcile, which says that documents were missing.
func reconcileLost(ctx context.Context, s *Source) error {
	err := reconcile(ctx, s)
	if err != nil && strings.Contains(err.Error(), "all documents were missing") {
		return nil
	}
	return err
}

// whole returns what a reader sees: nothing, or a rule set.
func (f *fixture) whole() string {
	f.Helper()
	v, err := f.Load(f.Context(), setID)
	if errors.Is(err, rules.ErrNotFound) {
		return "nothing"
	}
	must(f.T, err)
	return text(f, v.RuleSet)
}

// A writer killed before any call leaves the old rules or the new ones, and others
// complete its work.
func TestPut_KilledWriter(t *testing.T) {
	t.Parallel()
	always := Config{Lease: 1}
	base := newFixture(t, always)
	for name, sc := range scenarios {
		t.Run(name, func(t *testing.T) {
			// Record all steps and the result.
			f := base.fresh(t, always)
			sc.before(f)
			old := f.whole()
			count := &steps{at: -1}
			must(t, sc.do(t.Context(), f.handle(Config{Lease: 1, batch: 1, step: count.step})))
			done := f.whole()
			f.consistent()
			if len(count.all) < 5 {
				t.Fatalf("only %d steps: %q", len(count.all), count.all)
			}
			seen := map[string]bool{}
			for at, doing := range count.all {
				for _, finisher := range []string{"gateway", "writer"} {
					f := base.fresh(t, always)
					sc.before(f)
					w := &steps{at: at, once: kill}
					_ = sc.do(t.Context(), f.handle(Config{Lease: 1, batch: 1, step: w.step}))
					got := f.whole()
					if got != old && got != done {
						t.Fatalf("killed before %s: a reader sees\n%s", doing, got)
					}
					seen[got] = true
					wasEdited := sc.external && got == old
					if finisher == "gateway" {
						must(t, reconcileLost(t.Context(), f.Source))
						if f.headNow() != nil {
							f.consistent()
						}
						if now := f.whole(); now != got && !wasEdited {
							t.Errorf("killed before %s: completing changed\n%s\nfrom\n%s", doing, now, got)
						}
					} else if !wasEdited { // otherwise a conflict is expected
						f.put(rule("a", 9), rule("e", 9))
						f.consistent()
					}
					if !sc.external && f.headNow() != nil && strings.Contains(f.authors(), external) {
						t.Errorf("killed before %s: an incomplete write was imported as an edit: %s", doing, f.authors())
					}
					if t.Failed() {
						t.Fatalf("killed before step %d, %s, and finished by a %s", at, doing, finisher)
					}
				}
			}
			if old != done && (!seen[old] || !seen[done]) {
				t.Errorf("the writer was never killed on both sides of its commit")
			}
			t.Logf("%d steps, all of them tried", len(count.all))
		})
	}
}

// held runs do, stops it before a step, calls meanwhile and lets it continue.
func (f *fixture) held(at int, config Config, do func(*Source) error, meanwhile func()) error {
	f.Helper()
	reached, free := make(chan struct{}), make(chan struct{})
	w := &steps{at: at, once: func() error {
		close(reached)
		<-free
		return nil
	}}
	config.step = w.step
	s := f.handle(config)
	result := make(chan error, 1)
	go func() { result <- do(s) }()
	select {
	case <-reached:
	case err := <-result: // it made fewer calls this time
		meanwhile()
		return err
	}
	meanwhile()
	close(free)
	return <-result
}

// A writer that is delayed before any call does not change what was committed
// meanwhile.
func TestPut_LateWriter(t *testing.T) {
	t.Parallel()
	always := Config{Lease: 1}
	base := newFixture(t, always)
	later := map[string]func(f *fixture){
		"a change that drops its rules": func(f *fixture) { f.put(rule("c", 5), rule("e", 5)) },
		"a change of all its rules":     func(f *fixture) { f.put(rule("a", 5), rule("c", 5), rule("d", 5)) },
		"a deletion": func(f *fixture) {
			_, err := f.Delete(f.Context(), setID, by(f.base()))
			must(f.T, err)
		},
	}
	for name, sc := range scenarios {
		if sc.external || strings.HasPrefix(name, "the first") {
			continue // nothing to delay
		}
		for then, change := range later {
			if !strings.HasPrefix(name, "rules are replaced") && !strings.Contains(then, "drops") {
				continue // covered by the other cases
			}
			t.Run(name+" late, after "+then, func(t *testing.T) {
				f := base.fresh(t, always)
				sc.before(f)
				count := &steps{at: -1}
				must(t, sc.do(t.Context(), f.handle(Config{Lease: 1, batch: 1, step: count.step})))
				for at, doing := range count.all {
					f := base.fresh(t, always)
					sc.before(f)
					var want string
					err := f.held(at, Config{Lease: 1, batch: 1}, func(s *Source) error { return sc.do(t.Context(), s) }, func() {
						change(f)
						want = f.whole()
					})
					if err != nil && !errors.As(err, new(*rules.ConflictError)) {
						t.Errorf("it ended with %v", err)
					}
					if got := f.whole(); got != want {
						t.Errorf("the rules were\n%s\nand are now\n%s", want, got)
					}
					_ = reconcile(t.Context(), f) // deletes documents it may have inserted, and says so
					f.reconcileNow()
					f.consistent()
					if strings.Contains(f.authors(), external) {
						t.Errorf("it was imported as an edit: %s", f.authors())
					}
					if t.Failed() {
						t.Fatalf("held before step %d, %s", at, doing)
					}
				}
			})
		}
	}
}

// An edit that is made before any call of a writer is in some revision.
func TestPut_EditMeanwhile(t *testing.T) {
	t.Parallel()
	always := Config{Lease: 1}
	base := newFixture(t, always)
	f := base.fresh(t, always)
	f.put(threeRules()...)
	put := func(s *Source) error {
		_, err := s.Put(t.Context(), newSet(t, setID, otherRules()...), by(1))
		return err
	}
	count := &steps{at: -1}
	must(t, put(f.handle(Config{batch: 1, step: count.step})))
	outcomes := map[string]int{}
	for at, doing := range count.all {
		f := base.fresh(t, always)
		f.put(threeRules()...)
		err := f.held(at, Config{batch: 1}, put, func() { f.shell("a", set("priority", 77)) })
		must(t, reconcile(t.Context(), f))
		f.consistent()
		for r := range f.load().RuleSet.Rules() {
			if r.ID == "a" && r.Priority != 77 {
				t.Errorf("the edit before step %d, %s, is lost (the writer ended with %v)", at, doing, err)
			}
		}
		switch {
		case err == nil:
			outcomes["made"]++
		case errors.As(err, new(*rules.ConflictError)):
			outcomes["conflict"]++
		default:
			t.Errorf("the edit before step %d, %s: %v", at, doing, err)
		}
		if !strings.Contains(f.authors(), external) {
			t.Errorf("the edit before step %d, %s, made no revision: %s", at, doing, f.authors())
		}
	}
	if outcomes["made"] == 0 || outcomes["conflict"] == 0 {
		t.Errorf("the writer always ended the same way: %v", outcomes)
	}
}
