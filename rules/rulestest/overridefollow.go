package rulestest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

var overrideFollowChecks = []Check{
	{"changes of overrides are in the order of their revisions, with deletions", overrideChangeOrder},
	{"a reader of changes ends with the overrides that exist", followWriters},
	{"a reader learns that changes are lost and can read all overrides", lostOverrides},
}

func overrideChangeOrder(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	a, b, c := f.of("a", 2_000), f.of("b", 2_000), f.of("c", 2_000)
	f.put(a, b, c)
	f.put(f.of("a", 3_000))
	last := f.put(deletion(b))
	want := []string{c.ID(), a.ID(), b.ID()}
	for _, limit := range []int{1, 2, 3, 0} {
		var got []string
		for after, pages := int64(0), 0; after < last; pages++ {
			page, err := f.Overrides.OverrideChanges(f.Context(), f.set, after, limit)
			if err != nil || page.Revision <= after || pages > len(want) {
				t.Fatalf("the changes after revision %d are %+v (%v)", after, page, err)
			}
			for _, o := range page.Overrides {
				if got = append(got, o.ID()); o.Deleted != (o.ID() == b.ID()) || o.Identity["userId"] == "" || o.Deleted && o.Times != 0 {
					t.Errorf("a change is %s", text(o))
				}
			}
			after = page.Revision
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pages of %d the changes are of %v, want %v", limit, got, want)
		}
	}
	page, err := f.Overrides.OverrideChanges(f.Context(), f.set, last, 0)
	if err != nil || len(page.Overrides) != 0 || page.Revision != last {
		t.Errorf("the changes after the last revision are %+v (%v)", page, err)
	}
	page, err = f.Overrides.OverrideChanges(f.Context(), f.set, last-1, 0)
	if err != nil || len(page.Overrides) != 1 || !page.Overrides[0].Deleted {
		t.Errorf("the changes after the last revision but one are %+v (%v)", page, err)
	}
}

// followWriters reads while writers put and delete batches with few identities.
func followWriters(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	editors := []rules.OverrideEditor{f.Overrides, f.other()}
	readers := []*follower{f.follower(1), f.follower(7), f.follower(0)}
	stop := make(chan struct{})
	var writing, reading sync.WaitGroup
	for _, r := range readers {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := r.follow(f.Context()); err != nil {
						t.Errorf("reading changes: %v", err)
						return
					}
				}
			}
		})
	}
	for writer := range f.Writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(writer)))
			for range f.Changes / f.Writers {
				batch := f.users("user", 30, rules.Times(1+random.Int64N(1e6)))
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				batch = batch[:1+random.IntN(5)]
				for i := range batch {
					if random.IntN(3) == 0 {
						batch[i] = deletion(batch[i])
					}
				}
				if _, err := editors[writer%2].PutOverrides(f.Context(), f.set, batch); err != nil {
					t.Errorf("writing: %v", err)
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	for _, r := range readers {
		if !t.Failed() {
			f.wantState(r)
		}
	}
}

// lostOverrides deletes so many overrides that a source forgets some, while more exist than
// one page has.
func lostOverrides(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	late, reader := f.follower(0), f.follower(0)
	stay := f.users("stays", rules.MaxPage+200, 2_000)
	f.put(stay...)
	gone := f.of("gone", 2_000)
	f.put(gone)
	f.wantState(late)
	f.wantState(reader)
	_, err := f.Overrides.OverrideChanges(f.Context(), f.set, f.revision()+1, 0)
	if !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes after a revision that never was: %v, want ErrOverridesLost", err)
	}
	f.put(deletion(gone))
	const rounds = 10 // of more deletions than any source keeps beside so few overrides
	for round := range rounds {
		batch := f.users(fmt.Sprint("short-lived-", round), rules.MaxPage, 2_000)
		f.put(batch...)
		f.put(deletions(batch)...)
		f.wantState(reader)
	}
	f.put(f.of("stays-0", 3_000))
	f.wantState(late)
	if late.state[gone.ID()] != "" || len(late.state) != len(stay) {
		t.Errorf("a reader that was away knows %d overrides, want %d", len(late.state), len(stay))
	}
	if reader.lost > rounds {
		t.Errorf("a reader that was not away has lost changes %d times", reader.lost)
	}
	f.wantState(f.follower(100)) // a new one
}
