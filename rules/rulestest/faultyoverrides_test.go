package rulestest_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// overrideFaults are possible faults of sources of overrides, and the check that must detect
// each.
var overrideFaults = map[string]string{
	"loses the reason":                        "an override is read with every field until it is deleted",
	"rounds the end":                          "an override is read with every field until it is deleted",
	"finds a deleted override":                "an override is read with every field until it is deleted",
	"lists a deleted override":                "an override is read with every field until it is deleted",
	"makes revisions of unknown deletions":    "an unknown override or rule set is not found",
	"knows every rule set":                    "an unknown override or rule set is not found",
	"returns the revision of the first alone": "the revisions of overrides of many rule sets have all known ids",
	"mixes rule sets":                         "the overrides of a rule set are its own",
	"counts revisions of all rule sets":       "the overrides of a rule set are its own",
	"trims identities":                        "an identity is kept as it is",
	"ignores case":                            "an identity is kept as it is",
	"keeps the API key":                       "an API key is kept as its digest",
	"keeps the secret of a header":            "a header with a secret is kept as its digest",
	"ignores the context":                     "reading and writing overrides end with their context",
	"writes though the context has ended":     "reading and writing overrides end with their context",
	"caches overrides":                        "a change of an override is seen by every editor when it is made",
	"ignores the base revision":               "a change of an override at another revision is a conflict and changes nothing",
	"ignores that an override exists":         "a change of an override at another revision is a conflict and changes nothing",
	"writes half of a batch":                  "a change of an override at another revision is a conflict and changes nothing",
	"writes the valid part of a batch":        "changes of overrides are made all or none",
	"takes batches of any length":             "changes of overrides are made all or none",
	"has no bound":                            "a rule set has at most MaxOverrides",
	"looks for the revision before it writes": "concurrent changes of an override lose none",
	"lists in another order":                  "the list has the overrides that end first before others, page by page",
	"lists those without an end first":        "the list has the overrides that end first before others, page by page",
	"repeats an override on the next page":    "the list has the overrides that end first before others, page by page",
	"looks for the last override of a page":   "pages of a list miss and repeat no override that stays the same",
	"loses a deletion":                        "changes of overrides are in the order of their revisions, with deletions",
	"orders changes by id":                    "changes of overrides are in the order of their revisions, with deletions",
	"repeats the last change":                 "changes of overrides are in the order of their revisions, with deletions",
	"skips a change":                          "a reader of changes ends with the overrides that exist",
	"shows a revision after the next ones":    "a reader of changes ends with the overrides that exist",
	"forgets deletions without saying so":     "a reader learns that changes are lost and can read all overrides",
	"lists one page after it has forgotten":   "a reader learns that changes are lost and can read all overrides",
	"counts from 1 again after a loss":        "after a loss of data a reader of changes learns that its overrides are lost",
	"does not say that it has lost its data":  "after a loss of data a reader of changes learns that its overrides are lost",
	"says nothing of unknown revisions":       "a reader learns that changes are lost and can read all overrides",
	"keeps overrides of a deleted rule set":   "the overrides of a rule set are deleted with it, and do not come back",
	"restores overrides":                      "the overrides of a rule set are deleted with it, and do not come back",
	"deletes overrides in silence":            "the overrides of a rule set are deleted with it, and do not come back",
	"deletes overrides of other rule sets":    "the overrides of a rule set are deleted with it, and do not come back",
	"writes overrides of a deleted rule set":  "overrides of a deleted rule set cannot be written",
	"writes refused overrides later":          "overrides that are written while a rule set is deleted and put do not survive its deletion",
}

// faultyOverrides is a source of overrides in memory that can have one fault. Each handle has
// its own cache; the rest is shared.
type faultyOverrides struct {
	*overrideData
	cache map[string]rules.Override
}

type overrideData struct {
	*memrules.Source
	fault string

	writers *data // where writers meet

	mu         sync.Mutex
	calls      int                       // changes seen by "skips a change"
	plain      map[string]rules.Override // the last changes as they were given, by id
	last, gone map[string]rules.Override // what exists, and what was deleted
	deletions  int
	kept       map[string][]rules.Override // by rule set: written when it is put again
	silent     map[string]int64            // revisions that are shown, by rule set
	first      int64                       // the revision before the first one, for "counts from 1 again after a loss"
}

func openOverrides(fault string) rulestest.Subject {
	d := &overrideData{
		Source: memrules.New(memrules.Config{}), fault: fault, writers: &data{meeting: make(chan struct{})},
		plain: map[string]rules.Override{}, gone: map[string]rules.Override{}, last: map[string]rules.Override{},
		kept: map[string][]rules.Override{}, silent: map[string]int64{},
	}
	handle := func() *faultyOverrides { return &faultyOverrides{d, map[string]rules.Override{}} }
	return rulestest.Subject{
		Overrides: handle(), OpenOverrides: func(testing.TB) rules.OverrideEditor { return handle() }, Writers: 10, Changes: 300,
		Lose: func(testing.TB, string) { d.Source, d.first = memrules.New(memrules.Config{}), 0 },
	}
}

func (f *faultyOverrides) is(fault string) bool { return f.fault == fault }

func (f *faultyOverrides) context(ctx context.Context) context.Context {
	if f.is("ignores the context") {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (f *faultyOverrides) ruleSet(id string) string {
	if f.is("mixes rule sets") && id != "" {
		return "one"
	}
	return id
}

func (f *faultyOverrides) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (int64, error) {
	changes = slices.Clone(changes)
	for i := range changes {
		f.spoil(&changes[i])
	}
	put := func(list []rules.Override) (int64, error) {
		list = slices.Clone(list)
		for i := range list {
			if list[i].RuleSetID == ruleSet {
				list[i].RuleSetID = f.ruleSet(ruleSet)
			}
		}
		return f.Source.PutOverrides(f.context(ctx), f.ruleSet(ruleSet), list)
	}
	switch {
	case f.is("writes though the context has ended") && ctx.Err() != nil:
		_, _ = f.Source.PutOverrides(context.WithoutCancel(ctx), ruleSet, changes)
		return 0, ctx.Err()
	case f.is("takes batches of any length") && len(changes) > rules.MaxPage:
		_, _ = put(changes[rules.MaxPage:])
		changes = changes[:rules.MaxPage]
	case f.is("has no bound"):
		if revision, err := put(changes); !errors.Is(err, rules.ErrTooManyOverrides) {
			return revision, err
		}
		return f.revision(ruleSet)
	case f.is("looks for the revision before it writes"):
		f.look(ruleSet, changes)
	case f.is("counts revisions of all rule sets"):
		other := changes[0]
		other.RuleSetID, other.Revision = "of-all", 0
		_, _ = f.Source.PutOverrides(ctx, "of-all", []rules.Override{other})
	}
	revision, err := put(changes)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		return f.refused(ruleSet, changes, err)
	case err != nil && (f.is("writes half of a batch") || f.is("writes the valid part of a batch")):
		for _, o := range changes {
			_, _ = put([]rules.Override{o})
		}
	case err == nil:
		f.remember(changes)
		if f.is("counts from 1 again after a loss") {
			if f.first == 0 {
				f.first = revision - int64(len(changes))
			}
			revision -= f.first
		}
		if f.is("makes revisions of unknown deletions") && revision == 0 {
			revision = 1
		}
	}
	return revision, err
}

// spoil changes what is written.
func (f *faultyOverrides) spoil(o *rules.Override) {
	o.Identity = maps.Clone(o.Identity)
	switch {
	case f.is("loses the reason"):
		o.Reason = ""
	case f.is("rounds the end"):
		o.Until = o.Until.Truncate(time.Second)
	case f.is("ignores the base revision"):
		o.Revision = 0
	case f.is("ignores that an override exists"):
		o.Revision = max(0, o.Revision)
	}
	for name, value := range o.Identity {
		switch {
		case f.is("trims identities") && strings.TrimSpace(value) != "":
			o.Identity[name] = strings.TrimSpace(value)
		case f.is("ignores case"):
			o.Identity[name] = strings.ToLower(value)
		}
	}
}

// look compares the revisions, and lets another writer do the same before the change is made.
func (f *faultyOverrides) look(ruleSet string, changes []rules.Override) {
	for i := range changes {
		o := &changes[i]
		now, err := f.Source.Override(context.Background(), ruleSet, o.ID())
		if err == nil && o.Revision == now.Revision && f.writers.calls.Load() < 10 && f.writers.meet() {
			f.writers.calls.Add(1)
			o.Revision = 0
		}
	}
}

// remember notes what was written, for faults of reading.
func (f *faultyOverrides) remember(changes []rules.Override) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range changes {
		plain := o
		if o.Check() != nil {
			continue
		}
		id := o.ID()
		if f.plain[id] = plain; o.Deleted {
			f.deletions++
			if was, ok := f.last[id]; ok {
				f.gone[id] = was
			}
			delete(f.last, id)
		} else {
			f.last[id] = o
		}
	}
}

func (f *faultyOverrides) revision(ruleSet string) (int64, error) {
	revisions, err := f.Source.OverrideRevisions(context.Background(), []string{ruleSet})
	return revisions[ruleSet], err
}

func (f *faultyOverrides) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	ctx = f.context(ctx)
	if f.is("returns the revision of the first alone") {
		ruleSets = slices.DeleteFunc(slices.Clone(ruleSets), func(id string) bool { return !rules.ValidID(id) })
		ruleSets = ruleSets[:min(1, len(ruleSets))]
	}
	if f.is("counts revisions of all rule sets") {
		revision, err := f.revision("of-all")
		all := map[string]int64{}
		for _, id := range ruleSets {
			all[id] = revision
		}
		return all, err
	}
	all := map[string]int64{}
	for _, id := range ruleSets {
		revisions, err := f.Source.OverrideRevisions(ctx, []string{f.ruleSet(id)})
		if err != nil {
			return nil, err
		}
		if shown := f.shownRevision(id); shown > 0 {
			revisions[id] = shown
		}
		if revision, ok := revisions[f.ruleSet(id)]; ok || f.is("knows every rule set") {
			all[id] = revision - f.first
		}
	}
	return all, ctx.Err()
}

func (f *faultyOverrides) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	if kept, ok := f.cache[id]; ok && f.is("caches overrides") {
		return kept, nil
	}
	o, err := f.Source.Override(f.context(ctx), f.ruleSet(ruleSet), id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.gone[id]; ok && err != nil && f.is("finds a deleted override") {
		return was, nil
	}
	if err == nil && f.is("caches overrides") {
		f.cache[id] = o
	}
	return f.shown(o), err
}

// shown is an override as it is read.
func (f *faultyOverrides) shown(o rules.Override) rules.Override {
	_, byKey := o.Identity["apiKey"]
	_, byHeader := o.Identity["header:Authorization"]
	if byKey && f.is("keeps the API key") || byHeader && f.is("keeps the secret of a header") {
		o.Identity = f.plain[o.ID()].Identity
	}
	return o
}

func (f *faultyOverrides) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error) {
	given := after
	switch {
	case f.is("repeats an override on the next page") && after != "" && limit == 7:
		after = after[:len(after)-1]
	case f.is("looks for the last override of a page") && after != "":
		now, err := f.Source.Override(ctx, ruleSet, after[16:])
		if err != nil {
			return rules.OverridePage{}, err
		}
		after = now.Position()
	}
	page, err := f.Source.ListOverrides(f.context(ctx), f.ruleSet(ruleSet), after, limit)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range page.Overrides {
		page.Overrides[i] = f.shown(page.Overrides[i])
	}
	switch {
	case f.is("looks for the last override of a page") && page.Next != "" && page.Next < given:
		page.Next = "~" + page.Next // else the check finds this first
	case f.is("lists one page after it has forgotten") && f.deletions > 5_000:
		page.Next = ""
	case f.is("lists a deleted override") && page.Next == "":
		for _, o := range f.gone {
			page.Overrides = append(page.Overrides, o)
		}
	case f.is("lists in another order"):
		slices.SortFunc(page.Overrides, func(a, b rules.Override) int { return cmp.Compare(a.ID(), b.ID()) })
	case f.is("lists those without an end first"):
		slices.SortStableFunc(page.Overrides, func(a, b rules.Override) int { return a.Until.Compare(b.Until) })
	}
	return page, err
}

func (f *faultyOverrides) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (rules.OverridePage, error) {
	ctx = f.context(ctx)
	if f.is("repeats the last change") && after > 0 {
		after--
	}
	if f.is("says nothing of unknown revisions") {
		if revision, err := f.revision(ruleSet); err == nil && after > revision {
			return rules.OverridePage{Revision: after}, nil
		}
	}
	if shown := f.shownRevision(ruleSet); shown > 0 && after == shown {
		return rules.OverridePage{Revision: after}, nil
	}
	page, err := f.Source.OverrideChanges(ctx, f.ruleSet(ruleSet), after+f.first, limit)
	if errors.Is(err, rules.ErrOverridesLost) && f.is("does not say that it has lost its data") {
		page, err = f.Source.OverrideChanges(ctx, f.ruleSet(ruleSet), 0, limit)
	}
	page.Revision -= f.first
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range page.Overrides {
		page.Overrides[i] = f.shown(page.Overrides[i])
	}
	drop := func(gone func(rules.Override) bool) { page.Overrides = slices.DeleteFunc(page.Overrides, gone) }
	switch {
	case f.is("forgets deletions without saying so"):
		for revision, _ := f.revision(ruleSet); after < revision && errors.Is(err, rules.ErrOverridesLost); after++ {
			page, err = f.Source.OverrideChanges(ctx, ruleSet, after+1, limit)
		}
	case f.is("loses a deletion"):
		drop(func(o rules.Override) bool { return o.Deleted })
	case f.is("orders changes by id"):
		slices.SortFunc(page.Overrides, func(a, b rules.Override) int { return cmp.Compare(a.ID(), b.ID()) })
	case f.is("skips a change"):
		// So often that some override's last change is among them.
		drop(func(rules.Override) bool { f.calls++; return f.calls%3 == 0 })
	case f.is("shows a revision after the next ones"):
		// At every call, so that the last one hidden is the last change of its override.
		drop(func(o rules.Override) bool { return o.Revision == page.Revision-1 })
	}
	return page, err
}
