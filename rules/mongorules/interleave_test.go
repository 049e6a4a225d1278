package mongorules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

// scheduler lets one of several goroutines at a time make its next call to MongoDB,
// chosen at random.
type scheduler struct {
	rng   *rand.Rand
	ready chan chan struct{}
	ended chan struct{}
}

// step waits until the scheduler chooses this goroutine.
func (s *scheduler) step(string) error {
	turn := make(chan struct{})
	s.ready <- turn
	<-turn
	return nil
}

// run runs tasks until all have ended.
func (s *scheduler) run(tasks []func()) {
	s.ready, s.ended = make(chan chan struct{}), make(chan struct{})
	for _, task := range tasks {
		go func() {
			_ = s.step("starting")
			task()
			s.ended <- struct{}{}
		}()
	}
	var waiting []chan struct{}
	for living := len(tasks); living > 0; {
		for len(waiting) < living {
			select {
			case turn := <-s.ready:
				waiting = append(waiting, turn)
			case <-s.ended:
				living--
			}
		}
		if living > 0 {
			i := s.rng.IntN(len(waiting))
			close(waiting[i])
			waiting[i] = waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
		}
	}
}

// In any order of the calls of writers and reconcilers, every valid edit of the
// documents is in some revision, and only removed rules are missing.
func TestInterleaving_NoEditIsLost(t *testing.T) {
	t.Parallel()
	base := newFixture(t, Config{})
	rounds := 30
	if *full {
		rounds = 1_000
	}
	seed := rand.Uint64()
	outcomes := map[string]int{} // written by one goroutine at a time
	for round := range rounds {
		interleave(t, base, rand.New(rand.NewPCG(seed, uint64(round))), outcomes)
		if t.Failed() {
			t.Fatalf("in interleaving %d of seed %d", round, seed)
		}
	}
	t.Logf("%d interleavings: %v", rounds, outcomes)
}

func interleave(t *testing.T, base *fixture, rng *rand.Rand, outcomes map[string]int) {
	t.Helper()
	f := base.fresh(t, Config{Lease: 1})
	f.put(rule("a", 1), rule("b", 1), rule("c", 1), rule("counter", 1))
	s := &scheduler{rng: rng}
	source := func() *Source { // like that of another server, without creating indexes
		other := f.sameCollections()
		other.indexed.Store(true)
		other.config.batch, other.config.step = 1+rng.IntN(3), s.step
		return other
	}
	tasks := []func(){}
	for range 2 {
		writer, reconciler := source(), source()
		tasks = append(tasks, func() { outcomes[countUp(t, writer)]++; outcomes[countUp(t, writer)]++ }, func() {
			for range 2 {
				must(t, reconcile(t.Context(), reconciler))
			}
		})
	}
	edits := []func(){
		func() { f.shell("a", set("priority", 77)) },
		func() {
			f.insert(bson.D{{Key: "_id", Value: "new"}, {Key: "ruleSetId", Value: setID}, {Key: "action", Value: "deny"}})
		},
		func() {
			_, err := f.current().docs.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "b"}})
			must(t, err)
		},
	}
	tasks = append(tasks, func() {
		for _, i := range rng.Perm(len(edits)) {
			for range rng.IntN(20) {
				_ = s.step("pausing")
			}
			edits[i]()
		}
	})
	s.run(tasks)
	f.reconcileNow()
	f.consistent()

	edited, inserted, deleted := false, false, false
	entries, err := f.History(t.Context(), setID, 0, 0)
	must(t, err)
	for _, e := range entries {
		v, err := f.Version(t.Context(), setID, e.Revision)
		must(t, err)
		a, hasA := v.RuleSet.Rule("a")
		_, hasB := v.RuleSet.Rule("b")
		_, hasC := v.RuleSet.Rule("c")
		_, hasNew := v.RuleSet.Rule("new")
		edited, inserted, deleted = edited || a.Priority == 77, inserted || hasNew, deleted || !hasB
		if !hasA || !hasC {
			t.Errorf("revision %d by %s because %q has lost a rule", e.Revision, e.Author, e.Comment)
		}
	}
	if !edited || !inserted || !deleted {
		t.Errorf("edit in a revision: %t, insertion: %t, deletion: %t; revisions %v", edited, inserted, deleted, entries)
	}
	// Later revisions keep them.
	last := f.load().RuleSet
	if a, _ := last.Rule("a"); a.Priority != 77 {
		t.Errorf("the edit was undone: priority %d", a.Priority)
	}
	if _, has := last.Rule("b"); has {
		t.Error("the deleted rule is back")
	}
	counter, _ := last.Rule("counter")
	outcomes[fmt.Sprintf("counted to %d", counter.Bands[0].Capacity)]++
}

// countUp changes one rule of the current version once, and keeps the other rules.
func countUp(t *testing.T, s *Source) string {
	v, err := s.Load(t.Context(), setID)
	must(t, err)
	var all []rules.Rule
	for r := range v.RuleSet.Rules() {
		if r.ID == "counter" {
			r.Bands[0].Capacity++
		}
		all = append(all, r)
	}
	_, err = s.Put(t.Context(), newSet(t, setID, all...), by(v.Revision))
	if errors.As(err, new(*rules.ConflictError)) {
		return "conflict"
	}
	must(t, err)
	return "put"
}
