package rulestest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// editorFaults are possible faults of editors, and the check that must detect each.
// Other checks may detect them too.
var editorFaults = map[string]string{
	"knows ids that were never put":                      "reading an unknown id returns no revision and ErrNotFound",
	"loads nothing without an error":                     "reading an unknown id returns no revision and ErrNotFound",
	"returns the revision of the first id alone":         "the revisions of many ids have all known ids",
	"loses a field":                                      "reading returns every field of the rule set that was written",
	"loses the cost tables":                              "reading returns every field of the rule set that was written",
	"returns another revision on every load":             "the revision differs exactly when the content does",
	"loads a deleted rule set":                           "reading does not find a removed rule set",
	"shows new rules under the old revision":             "reading while rules change returns complete versions",
	"ignores the context":                                "reading and writing end with their context",
	"writes though the context has ended":                "reading and writing end with their context",
	"treats malformed content as missing":                "malformed content is an error of its own rule set only, until it is repaired",
	"cannot repair malformed content":                    "malformed content is an error of its own rule set only, until it is repaired",
	"notifies no watcher":                                "watching reports its start and changes, until its context ends",
	"does not report that it has begun to watch":         "watching reports its start and changes, until its context ends",
	"watches for ever":                                   "watching reports its start and changes, until its context ends",
	"imports unchanged content":                          "reconciling unchanged content changes nothing",
	"overwrites an existing rule set":                    "a change based on revision 0 needs a rule set that does not exist",
	"overwrites an unseen revision":                      "a change based on another revision is a conflict and changes nothing",
	"deletes an unseen revision":                         "a change based on another revision is a conflict and changes nothing",
	"does not return the current revision of a conflict": "a change based on another revision is a conflict and changes nothing",
	"takes changes without an author":                    "a change without an author or with control characters is rejected",
	"caches loaded rule sets for ever":                   "a change is seen by every editor of the data when it is made",
	"forgets that a rule set was deleted":                "a deleted rule set is known as deleted and its history stays",
	"lists a deleted rule set":                           "a deleted rule set is known as deleted and its history stays",
	"deletes the history too":                            "a deleted rule set is known as deleted and its history stays",
	"counts from 1 after a deletion":                     "a deleted rule set can be created again under a new revision",
	"deletes an unknown rule set":                        "a rule set that does not exist cannot be deleted",
	"rounds numbers":                                     "a rule set is kept byte for byte",
	"cuts long documents":                                "a rule set can be as long as a document may be and no longer",
	"drops the author":                                   "every read of a change has its author, comment and time",
	"dates nothing":                                      "every read of a change has its author, comment and time",
	"lists without the comment":                          "every read of a change has its author, comment and time",
	"keeps a rule id for its first rule set":             "rule sets may have rules with the same id",
	"lists the oldest first":                             "history is newest first and pages over it miss and repeat nothing",
	"repeats an entry on the next page":                  "history is newest first and pages over it miss and repeat nothing",
	"leaves out an entry on the next page":               "history is newest first and pages over it miss and repeat nothing",
	"returns nothing for a limit of zero":                "history is newest first and pages over it miss and repeat nothing",
	"has a version for every number":                     "history has the rules of every revision and of no other",
	"has the current rules for every revision":           "history has the rules of every revision and of no other",
	"keeps all history":                                  "history is bounded and drops the oldest revisions",
	"forgets one too many":                               "history is bounded and drops the oldest revisions",
	"bounds no bytes":                                    "history is bounded in bytes and keeps the last two revisions",
	"forgets the former revision if it is large":         "history is bounded in bytes and keeps the last two revisions",
	"forgets one more byte than it must":                 "history is bounded in bytes and keeps the last two revisions",
	"lists an id again on the next page":                 "list has the existing rule sets in the order of their ids, page by page",
	"lists one id less":                                  "list has the existing rule sets in the order of their ids, page by page",
	"restores other bytes":                               "restoring makes any revision current again, byte for byte",
	"restores a deletion as no rules":                    "restoring works for deleted rule sets and not for deletions",
	"numbers other content alike after a loss":           "after a loss of data the head differs, though the revision does not",
	"loads another head than it shows":                   "after a loss of data the head differs, though the revision does not",
	"looks for the revision before it writes":            "concurrent writers lose no change and every version can be restored",
	"loses a change and reports success":                 "concurrent writers lose no change and every version can be restored",
	"restores the neighbouring version after a while":    "concurrent writers lose no change and every version can be restored",
}

// faulty is an editor in memory that can have one fault. Each handle has its own
// cache; the rest is shared.
type faulty struct {
	*data
	cache map[string]*rules.Version
}

type data struct {
	*memrules.Source
	fault   string
	calls   atomic.Int64
	meeting chan struct{}
	late    sync.Mutex // held by writers after they have met

	mu      sync.Mutex
	texts   map[string]string // malformed documents that replace the rules
	owners  map[string]string // the first rule set with a rule id
	deleted []rules.Entry
}

func openEditor(fault string) rulestest.Subject {
	const history, historyBytes = 20, 128 << 10
	config := memrules.Config{History: history, HistoryBytes: historyBytes}
	switch fault {
	case "keeps all history":
		config.History = 1_000_000
	case "forgets one too many":
		config.History--
	case "bounds no bytes":
		config.HistoryBytes = 1 << 40
	case "forgets one more byte than it must":
		config.HistoryBytes = historyBytes * 3 / 4
	}
	d := &data{
		Source: memrules.New(config), fault: fault, meeting: make(chan struct{}),
		texts: map[string]string{}, owners: map[string]string{},
	}
	handle := func() *faulty { return &faulty{data: d, cache: map[string]*rules.Version{}} }
	return rulestest.Subject{
		Editor:  handle(),
		Open:    func(testing.TB) rules.Editor { return handle() },
		Corrupt: func(_ testing.TB, id, document string) { d.mu.Lock(); defer d.mu.Unlock(); d.texts[id] = document },
		Lose:    func(testing.TB, string) { d.Source = memrules.New(config) },
		History: history, HistoryBytes: historyBytes, Changes: 200, Patience: 300 * time.Millisecond,
	}
}

func (d *data) is(fault string) bool { return d.fault == fault }

// meet waits until another call is at the same point, and reports whether there was
// one.
func (d *data) meet() bool {
	select {
	case d.meeting <- struct{}{}:
		return true
	case <-d.meeting:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

func (f *faulty) context(ctx context.Context) context.Context {
	if f.is("ignores the context") {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (f *faulty) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	ctx = f.context(ctx)
	if f.is("writes though the context has ended") && ctx.Err() != nil {
		_, _ = f.Source.Put(context.WithoutCancel(ctx), set, change)
		return 0, ctx.Err()
	}
	if f.is("takes changes without an author") && change.Author == "" {
		change.Author = "unknown"
	}
	if f.is("drops the author") && change.Check() == nil {
		change.Author = "another"
	}
	switch {
	case f.is("overwrites an existing rule set") && change.Base == 0, f.is("overwrites an unseen revision") && change.Base >= 0:
		change.Base = f.current(set.ID())
	case f.is("looks for the revision before it writes") && change.Base > 0 && change.Base == f.current(set.ID()):
		if f.calls.Load() < 10 && f.meet() { // as long as it takes on a busy machine
			f.calls.Add(1)
			f.late.Lock()
			defer f.late.Unlock()
			change.Base = f.current(set.ID())
		}
	case f.is("loses a change and reports success") && f.calls.Add(1) == 100:
		return change.Base + 1, nil
	case f.is("keeps a rule id for its first rule set"):
		if err := f.claim(set); err != nil {
			return 0, err
		}
	case f.is("cannot repair malformed content") && f.malformed(set.ID()) != nil:
		return 0, f.malformed(set.ID())
	}
	revision, err := f.Source.Put(ctx, set, change)
	switch {
	case err != nil && f.is("cuts long documents") && set.Len() > 0:
		return f.Source.Put(ctx, edited(set, func(r *rules.Rule) { r.Attributes = nil }), change)
	case err == nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.texts, set.ID())
	}
	return revision, f.garble(err)
}

func (f *faulty) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	ctx = f.context(ctx)
	if f.is("takes changes without an author") && change.Author == "" {
		change.Author = "unknown"
	}
	if f.is("deletes an unseen revision") {
		change.Base = f.current(id)
	}
	revision, err := f.Source.Delete(ctx, id, change)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.deleted = append(f.deleted, rules.Entry{RuleSetID: id, Head: rules.Head{Revision: revision, Deleted: true}})
		if f.is("counts from 1 after a deletion") {
			f.Source = memrules.New(memrules.Config{})
		}
	}
	if errors.Is(err, rules.ErrNotFound) && f.is("deletes an unknown rule set") {
		return 1, nil
	}
	return revision, f.garble(err)
}

// garble removes the details of a conflict.
func (f *faulty) garble(err error) error {
	var conflict *rules.ConflictError
	if errors.As(err, &conflict) && f.is("does not return the current revision of a conflict") {
		return &rules.ConflictError{RuleSetID: conflict.RuleSetID, Base: conflict.Base}
	}
	return err
}

// claim reserves a rule id for the first rule set that has it.
func (f *faulty) claim(set *rules.Set) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range set.Rules() {
		if owner, ok := f.owners[r.ID]; ok && owner != set.ID() {
			return &rules.ValidationError{RuleSetID: set.ID(), Problems: []rules.Problem{{Path: rules.Path{"rules", 0, "id"}}}}
		}
		f.owners[r.ID] = set.ID()
	}
	return nil
}

// current returns the revision that a change must be based on.
func (d *data) current(id string) int64 {
	v, err := d.Load(context.Background(), id)
	if err != nil {
		return 0
	}
	return v.Revision
}

func (d *data) malformed(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text, ok := d.texts[id]; ok {
		_, err := rules.Parse([]byte(text))
		return err
	}
	return nil
}
