package rulestest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var readChecks = []Check{
	{"reading an unknown id returns no revision and ErrNotFound", unknownIDs},
	{"the revisions of many ids have all known ids", manyRevisions},
	{"reading returns every field of the rule set that was written", everyField},
	{"the revision differs exactly when the content does", revisionFollowsContent},
	{"reading does not find a removed rule set", removedIsNotFound},
	{"reading while rules change returns complete versions", wholeVersions},
	{"reading and writing end with their context", contextEnds},
}

// strange are invalid ids, as a request or a message may have them.
var strange = []string{
	"", ".", "..", "../../etc/passwd", "a/b", "a b", "a:b", "*", "{a}", "$ne", "a\x00b", "a\nb", "ü", "\xff",
	strings.Repeat("x", 65), strings.Repeat("x", 10_000),
}

func unknownIDs(t testing.TB, s Subject) {
	f := newFixture(t, s)
	f.write(f.set(f.id("known"), ""))
	ids := append([]string{f.id("unknown"), f.id("know"), f.id("known-"), strings.ToUpper(f.id("known"))}, strange...)
	for id, head := range f.revisions(ids...) {
		t.Errorf("Revisions returns %+v for %q, which does not exist", head, id)
	}
	for _, id := range ids {
		v, err := f.Source.Load(t.Context(), id)
		f.wantNotFound(err, fmt.Sprintf("Load of %q", id))
		if v != nil {
			t.Errorf("Load of %q gives a version with its error", id)
		}
	}
}

func manyRevisions(t testing.TB, s Subject) {
	f := newFixture(t, s)
	for _, none := range [][]string{nil, {}} {
		if heads := f.revisions(none...); len(heads) != 0 {
			t.Errorf("Revisions of no ids are %v", heads)
		}
	}
	const known = 20
	var ids []string
	for i := range known {
		id := f.id(fmt.Sprintf("set-%d", i))
		f.write(f.set(id, ""))
		ids = append(ids, id, f.id(fmt.Sprintf("unknown-%d", i)), id)
	}
	for i := range 500 {
		ids = append(ids, f.id(fmt.Sprintf("more-%d", i)))
	}
	heads := f.revisions(ids...)
	if len(heads) != known {
		t.Errorf("Revisions of %d rule sets, each asked for twice among %d ids, has %d", known, len(ids), len(heads))
	}
	for i := range known {
		id := ids[3*i]
		if got, want := heads[id], f.load(f.Source, id).Head; got != want || want.Deleted {
			t.Errorf("Revisions says %+v of %s, Load %+v", got, id, want)
		}
	}
}

func everyField(t testing.TB, s Subject) {
	f := newFixture(t, s)
	id := f.id("full")
	set := f.full(id)
	f.write(set)
	v := f.load(f.Source, id)
	if v.RuleSetID != id || v.RuleSet.ID() != id {
		t.Errorf("Load of %s gives an entry of %q with the rules of %q", id, v.RuleSetID, v.RuleSet.ID())
	}
	if got, want := f.document(v.RuleSet), f.document(set); got != want {
		t.Errorf("loaded\n%s\nwant\n%s", got, want)
	}
}

func revisionFollowsContent(t testing.TB, s Subject) {
	f := newFixture(t, s)
	id, bystander := f.id("set"), f.id("bystander")
	f.write(f.set(bystander, ""))
	others, _ := f.head(bystander)
	var last rules.Head
	for i := range 5 {
		mark := fmt.Sprint(i)
		f.write(f.set(id, mark))
		head, _ := f.head(id)
		if head.Deleted || head.Revision == 0 {
			t.Fatalf("a rule set that exists is at %+v", head)
		}
		if head.Revision == last.Revision {
			t.Fatalf("the content was changed and the revision is still %d", head.Revision)
		}
		for range 3 {
			v := f.load(f.Source, id)
			if again, _ := f.head(id); again != head || v.Head != head {
				t.Fatalf("nothing was changed, and the revision is %d, then %d in Revisions and %d in Load", head.Revision, again.Revision, v.Revision)
			}
			if markOf(v.RuleSet) != mark {
				t.Fatalf("Load gives the content %q at the revision of %q", markOf(v.RuleSet), mark)
			}
		}
		last = head
	}
	if f.Editor == nil {
		f.write(f.set(id, "4"))
		if head, _ := f.head(id); head != last {
			t.Errorf("the same content was written again, and the revision went from %d to %d", last.Revision, head.Revision)
		}
	}
	f.write(f.priced(f.set(id, "4")))
	if head, _ := f.head(id); head.Revision == last.Revision {
		t.Errorf("the cost tables were changed and the revision is still %d", head.Revision)
	}
	if now, _ := f.head(bystander); now != others {
		t.Errorf("an unchanged rule set went from %+v to %+v", others, now)
	}
}

func removedIsNotFound(t testing.TB, s Subject) {
	f := newFixture(t, s)
	gone, stays := f.id("gone"), f.id("stays")
	for range 2 {
		f.write(f.set(gone, "a"))
		f.write(f.set(stays, "b"))
		f.remove(gone)
		_, err := f.Source.Load(t.Context(), gone)
		f.wantNotFound(err, "Load of a removed rule set")
		if head, known := f.head(gone); known && !head.Deleted {
			t.Errorf("Revisions returns %+v for a removed rule set", head)
		}
		if got := markOf(f.load(f.Source, stays).RuleSet); got != "b" {
			t.Errorf("the rule set beside it has the mark %q, want b", got)
		}
	}
}

// wholeVersions reads from all handles while a rule set is changed: a revision has
// one content, and no reader sees an older one after a newer one.
func wholeVersions(t testing.TB, s Subject) {
	f := newFixture(t, s)
	id := f.id("set")
	sources := []rules.Source{f.Source, f.Source}
	if f.Editor != nil {
		sources[1] = f.other()
	}
	const changes = 60
	var contents sync.Map // revision → mark
	belongs := func(revision int64, mark string) {
		if known, _ := contents.LoadOrStore(revision, mark); known != mark {
			t.Errorf("revision %d has the content %q and %q", revision, known, mark)
		}
	}
	f.write(f.set(id, mark(0)))
	var done atomic.Bool
	var readers sync.WaitGroup
	read := make(chan struct{}, 1)
	for reader := range 4 {
		readers.Go(func() {
			last := ""
			for more := true; more; {
				more = !done.Load() // once more after the last write
				v, err := sources[reader%2].Load(t.Context(), id)
				if err != nil {
					t.Errorf("Load: %v", err)
					return
				}
				now := markOf(v.RuleSet)
				belongs(v.Revision, now)
				if now < last {
					t.Errorf("the content %q was read after %q", now, last)
				}
				last = now
				select {
				case read <- struct{}{}:
				default:
				}
			}
		})
	}
	func() {
		defer readers.Wait()
		defer done.Store(true)
		for i := range changes {
			f.write(f.set(id, mark(i+1)))
			if head, _ := f.head(id); head.Revision != 0 {
				belongs(head.Revision, mark(i+1))
			}
			select {
			case <-read: // write the next one
			case <-time.After(f.Patience):
				t.Fatalf("no reader has read anything in %v", f.Patience)
			}
		}
	}()
}

// mark returns a mark that sorts by its number.
func mark(i int) string { return fmt.Sprintf("%06d", i) }

func contextEnds(t testing.TB, s Subject) {
	f := newFixture(t, s)
	id := f.id("set")
	f.write(f.set(id, "a"))
	before := f.state(id)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"Revisions": func() error { _, err := f.Source.Revisions(ctx, []string{id}); return err },
		"Load":      func() error { _, err := f.Source.Load(ctx, id); return err },
	}
	if e := f.Editor; e != nil {
		calls["Put"] = func() error { _, err := e.Put(ctx, f.set(id, "b"), by(f.base(id))); return err }
		calls["Delete"] = func() error { _, err := e.Delete(ctx, id, by(f.base(id))); return err }
		calls["List"] = func() error { _, err := e.List(ctx, "", 10); return err }
		calls["History"] = func() error { _, err := e.History(ctx, id, 0, 10); return err }
		calls["Version"] = func() error { _, err := e.Version(ctx, id, f.base(id)); return err }
	}
	for name, call := range calls {
		start := time.Now()
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: error %v, want the context's", name, err)
		}
		if took := time.Since(start); took > f.Patience {
			t.Errorf("%s with a context that has ended took %v", name, took)
		}
	}
	if after := f.state(id); after != before {
		t.Errorf("calls with a context that had ended have changed\n%sto\n%s", before, after)
	}
}
