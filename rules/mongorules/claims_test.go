package mongorules

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

const otherID = "other-limits"

// has reports whether the current version of a rule set has the rule x.
func (f *fixture) has(id string) bool {
	f.Helper()
	v, err := f.Load(f.Context(), id)
	if errors.Is(err, rules.ErrNotFound) {
		return false
	}
	must(f.T, err)
	for r := range v.RuleSet.Rules() {
		if r.ID == "x" {
			return true
		}
	}
	return false
}

// muchLater is the clock of one for whom every claim is old.
func muchLater() time.Time { return time.Now().Add(time.Hour) }

func TestARuleIDGoesToOneRuleSetHoweverLateAWriterIs(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{})
	putX := func(s *Source, id string, rev int64) error {
		_, err := s.Put(t.Context(), newSet(t, id, rule("x", 1)), by(rev))
		return err
	}
	for name, before := range map[string]func(f *fixture){
		"of a new rule set": func(*fixture) {},
		"of a rule set that exists": func(f *fixture) {
			f.put(rule("a", 1))
		},
		"of a rule set that had it before": func(f *fixture) {
			f.put(rule("x", 1))
			f.put(rule("a", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := base.fresh(t, Config{})
			before(f)
			rev := f.base()
			count := &steps{at: -1}
			must(t, putX(f.handle(Config{step: count.step}), setID, rev))
			won := map[string]int{}
			for at, doing := range count.all {
				f := base.fresh(t, Config{})
				before(f)
				var stolen error
				err := f.held(at, Config{}, func(s *Source) error { return putX(s, setID, rev) }, func() {
					stolen = putX(f.handle(Config{Now: muchLater}), otherID, 0)
				})
				mine, theirs := f.has(setID), f.has(otherID)
				if mine == theirs {
					t.Errorf("held before step %d, %s: mine %t (%v), theirs %t (%v)", at, doing, mine, err, theirs, stolen)
				}
				if mine != (err == nil) || theirs != (stolen == nil) {
					t.Errorf("held before step %d, %s: mine %t but %v, theirs %t but %v", at, doing, mine, err, theirs, stolen)
				}
				for _, err := range []error{err, stolen} {
					if err != nil && !errors.As(err, new(*fluxgate.ValidationError)) {
						t.Errorf("held before step %d, %s: %v", at, doing, err)
					}
				}
				won[fmt.Sprint(mine)]++
				owner := map[bool]string{true: setID, false: otherID}[mine]
				if doc := f.document("x"); doc["ruleSetId"] != owner {
					t.Errorf("held before step %d, %s: the document is that of %v", at, doing, doc["ruleSetId"])
				}
				if heads, err := f.Revisions(t.Context(), []string{setID}); err != nil || rev == 0 && !mine && len(heads) != 0 {
					t.Errorf("held before step %d, %s: a rule set that was never made is told as %v, %v", at, doing, heads, err)
				}
			}
			if won["true"] == 0 || won["false"] == 0 {
				t.Errorf("the same one always won: %v", won)
			}
		})
	}
}

func TestTheClaimsOfADeadWriterAreTakenOver(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{})
	f := base.fresh(t, Config{})
	count := &steps{at: -1}
	put := func(s *Source) error {
		_, err := s.Put(t.Context(), newSet(t, setID, rule("x", 1)), by(0))
		return err
	}
	must(t, put(f.handle(Config{step: count.step})))
	for at, doing := range count.all {
		f := base.fresh(t, Config{})
		w := &steps{at: at, once: kill}
		_ = put(f.handle(Config{step: w.step}))
		was := f.has(setID)
		_, err := f.handle(Config{Now: muchLater}).Put(t.Context(), newSet(t, otherID, rule("x", 2)), by(0))
		if was != errors.As(err, new(*fluxgate.ValidationError)) || was == (err == nil) {
			t.Errorf("killed before step %d, %s, which left the rule %t: %v", at, doing, was, err)
		}
	}
}

func TestDocumentsOfADyingRuleSetAreNotInTheWay(t *testing.T) {
	f := newFixture(t, Config{})
	f.put(rule("x", 1))
	w := f.handle(Config{step: func(doing string) error {
		if doing == "writing documents" {
			return errKilled
		}
		return nil
	}})
	_, err := w.Delete(t.Context(), setID, by(1))
	must(t, err)
	_, err = f.handle(Config{Now: muchLater}).Put(t.Context(), newSet(t, otherID, rule("x", 2)), by(0))
	must(t, err)
}

func TestAnEditCannotTakeARuleThatAnotherRuleSetHas(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(rule("x", 1), rule("a", 1))
	_, err := f.Put(t.Context(), newSet(t, otherID, rule("b", 1)), by(0))
	must(t, err)
	// Somebody moves it with a shell.
	f.shell("x", set("ruleSetId", otherID))
	if err := f.Mend(t.Context(), []string{otherID}); !errors.As(err, new(*fluxgate.ValidationError)) {
		t.Errorf("before the owner has let it go: %v", err)
	}
	must(t, f.Mend(t.Context(), []string{setID}))
	late := f.handle(Config{CheckEvery: 1, Now: muchLater})
	must(t, late.Mend(t.Context(), []string{otherID}))
	if f.has(setID) || !f.has(otherID) {
		t.Errorf("mine %t, theirs %t", f.has(setID), f.has(otherID))
	}
}

func TestAServerThatRefusesADocumentDoesNotStopChanges(t *testing.T) {
	// The test server does not take lists of lists; MongoDB refuses what a
	// schema forbids.
	f := newFixture(t, Config{CheckEvery: 1})
	r := rule("a", 1)
	r.Attributes = map[string]any{"grid": []any{[]any{"secret"}}}
	f.put(r)
	if f.document("a") != nil {
		t.Skip("this server takes it")
	}
	err := f.Mend(t.Context(), []string{setID})
	if !errors.Is(err, errRefused) {
		t.Errorf("Mend: %v", err)
	}
	if fmt.Sprint(err) != "documents of rule set \"api-limits\": writing documents: the server refuses a document with error 2" {
		t.Errorf("the error says %v", err)
	}
	if got := capacities(f.load().RuleSet); got != "a=1" {
		t.Errorf("the rules are %s", got)
	}
	f.put(rule("a", 2))
	f.mended(true)
}

func TestARuleIsNamedByItsPlace(t *testing.T) {
	f := newFixture(t, Config{})
	f.put(rule("x", 1))
	_, err := f.docs.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "y"}, {Key: "ruleSetId", Value: "unseen"}})
	must(t, err)
	_, err = f.Put(t.Context(), newSet(t, otherID, rule("w", 1), rule("x", 1), rule("y", 1)), by(0))
	var invalid *fluxgate.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("Put: %v", err)
	}
	want := []fluxgate.Problem{
		{Place: "rules[1].id", Message: `"x" is already the id of a rule in rule set "api-limits"`},
		{Place: "rules[2].id", Message: `"y" is already the id of a rule in rule set "unseen"`},
	}
	if fmt.Sprint(invalid.Problems) != fmt.Sprint(want) {
		t.Errorf("the problems are %v", invalid.Problems)
	}
}

func TestAThiefWhoIsLateDoesNotGetWhatItsOwnerHasTakenUpAgain(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{})
	steal := func(s *Source) error {
		_, err := s.Put(t.Context(), newSet(t, otherID, rule("x", 1)), by(0))
		return err
	}
	// The owner's first writer died after it had claimed the id.
	prepared := func() *fixture {
		f := base.fresh(t, Config{})
		dying := f.handle(Config{step: func(doing string) error {
			if doing == "inserting a snapshot" {
				return errKilled
			}
			return nil
		}})
		if _, err := dying.Put(t.Context(), newSet(t, setID, rule("x", 1)), by(0)); !errors.Is(err, errKilled) {
			t.Fatalf("the writer did not die: %v", err)
		}
		return f
	}
	count := &steps{at: -1}
	must(t, steal(prepared().handle(Config{Now: muchLater, step: count.step})))
	for at, doing := range count.all {
		f := prepared()
		var owned error
		stolen := f.held(at, Config{Now: muchLater}, steal, func() {
			// For whom the thief has had time enough.
			later := func() time.Time { return muchLater().Add(time.Hour) }
			_, owned = f.handle(Config{Now: later}).Put(t.Context(), newSet(t, setID, rule("x", 2)), by(0))
		})
		if mine, theirs := f.has(setID), f.has(otherID); mine == theirs || mine != (owned == nil) || theirs != (stolen == nil) {
			t.Errorf("held before step %d, %s: mine %t (%v), theirs %t (%v)", at, doing, mine, owned, theirs, stolen)
		}
	}
}

// holdAt stops whoever is about to do something until it is let go.
func holdAt(doing string) (step func(string) error, reached, free chan struct{}) {
	reached, free = make(chan struct{}), make(chan struct{})
	held := false
	return func(what string) error {
		if what == doing && !held {
			held = true
			close(reached)
			<-free
		}
		return nil
	}, reached, free
}

func TestARuleThatIsTakenUpWhileItIsBeingFreedStaysClaimed(t *testing.T) {
	f := newFixture(t, Config{})
	f.put(rule("x", 1), rule("a", 1))
	both := make(chan error, 2)
	put := func(step func(string) error, base int64, all ...fluxgate.Rule) {
		s := f.handle(Config{step: step})
		go func() {
			_, err := s.Put(f.Context(), newSet(t, setID, all...), by(base))
			both <- err
		}()
	}
	step, freeing, free := holdAt("reading claims")
	put(step, 1, rule("a", 1)) // drops x, and is about to free its id
	<-freeing
	step, committing, commit := holdAt("setting where a rule set stands")
	put(step, 2, rule("x", 2), rule("a", 1)) // takes it up again
	<-committing
	close(free)
	must(t, <-both)
	close(commit)
	must(t, <-both)
	if got := capacities(f.load().RuleSet); got != "a=1 x=2" {
		t.Errorf("the rules are %s", got)
	}
	f.mended(true)
}
