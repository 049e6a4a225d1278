package rulestest_test

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// documentFaults are possible faults of sources that cannot be written, and the
// check that must detect each.
var documentFaults = map[string]string{
	"has one revision for everything":                  "the revision differs exactly when the content does",
	"makes its revisions of the rules alone":           "the revision differs exactly when the content does",
	"makes a revision of every write":                  "the revision differs exactly when the content does",
	"loses a field":                                    "reading returns every field of the rule set that was written",
	"loses the cost tables":                            "reading returns every field of the rule set that was written",
	"remembers a removed rule set":                     "reading does not find a removed rule set",
	"treats malformed content as missing":              "malformed content is an error of its own rule set only, until it is repaired",
	"returns the former content for malformed content": "malformed content is an error of its own rule set only, until it is repaired",
	"fails other rule sets for malformed content":      "malformed content is an error of its own rule set only, until it is repaired",
	"reads the revision and the rules one by one":      "reading while rules change returns complete versions",
	"asks for nothing and gets an error":               "the revisions of many ids have all known ids",
	"finds a rule set however its id is capitalised":   "reading an unknown id returns no revision and ErrNotFound",
}

// documents is the simplest source that cannot be written: a map of documents. It
// can have one fault.
type documents struct {
	mu     sync.Mutex
	texts  map[string]string
	good   map[string]string // the last valid text
	writes int64
	fault  string
}

func openDocuments(fault string) rulestest.Subject {
	d := &documents{texts: map[string]string{}, good: map[string]string{}, fault: fault}
	return rulestest.Subject{
		Source: d,
		Write: func(t testing.TB, set *rules.Set) {
			t.Helper()
			data, err := json.Marshal(set)
			if err != nil {
				t.Fatal(err)
			}
			d.write(set.ID(), string(data))
			d.mu.Lock()
			defer d.mu.Unlock()
			d.good[set.ID()] = string(data)
		},
		Remove: func(_ testing.TB, id string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.is("remembers a removed rule set") {
				delete(d.texts, id)
			}
		},
		Corrupt: func(_ testing.TB, id, document string) { d.write(id, document) },
	}
}

func (d *documents) is(fault string) bool { return d.fault == fault }

func (d *documents) write(id, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts[id] = text
	d.writes++
}

func (d *documents) text(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.is("finds a rule set however its id is capitalised") {
		for known := range d.texts {
			if len(known) == len(id) && known != id {
				id = known
			}
		}
	}
	text, ok := d.texts[id]
	return text, ok
}

func (d *documents) head(text string) rules.Head {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.is("makes its revisions of the rules alone") {
		_, text, _ = strings.Cut(text, `"rules":`)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	head := rules.Head{Revision: int64(h.Sum64()>>1) | 1}
	switch {
	case d.is("has one revision for everything"):
		head.Revision = 1
	case d.is("makes a revision of every write"):
		head.Revision += d.writes
	}
	return head
}

func (d *documents) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(ids) == 0 && d.is("asks for nothing and gets an error") {
		return nil, rules.ErrNotFound
	}
	heads := map[string]rules.Head{}
	for _, id := range ids {
		if text, ok := d.text(id); ok {
			heads[id] = d.head(text)
		}
	}
	return heads, nil
}

func (d *documents) Load(ctx context.Context, id string) (*rules.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, ok := d.text(id)
	if !ok {
		return nil, rules.ErrNotFound
	}
	head := d.head(text)
	if d.is("reads the revision and the rules one by one") {
		// Another writer writes in between.
		head.Revision = 1
	}
	set, err := rules.Parse([]byte(text))
	switch {
	case err != nil && d.is("treats malformed content as missing"):
		err = rules.ErrNotFound
	case err != nil && d.is("returns the former content for malformed content"):
		d.mu.Lock()
		defer d.mu.Unlock()
		set, err = rules.Parse([]byte(d.good[id]))
	case err == nil && d.is("fails other rule sets for malformed content"):
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, beside := range d.texts {
			if _, bad := rules.Parse([]byte(beside)); bad != nil {
				err = bad
			}
		}
	case err == nil && d.is("loses a field"):
		set = edited(set, func(r *rules.Rule) { r.Group = "" })
	case err == nil && d.is("loses the cost tables"):
		set, err = set.WithCostTables(nil)
	}
	if err != nil {
		return nil, err
	}
	return &rules.Version{Entry: rules.Entry{RuleSetID: id, Head: head}, RuleSet: set}, nil
}

// edited returns a rule set with every rule changed.
func edited(set *rules.Set, edit func(*rules.Rule)) *rules.Set {
	var all []rules.Rule
	for r := range set.Rules() {
		edit(&r)
		all = append(all, r)
	}
	other, err := set.WithRules(all...)
	if err != nil {
		panic(err)
	}
	return other
}
