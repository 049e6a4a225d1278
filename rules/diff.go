package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate"
)

// RuleDiff is what becomes of one rule between two rule sets.
type RuleDiff struct {
	Rule   string   `json:"rule" doc:"The rule."`
	Change DiffKind `json:"change" enum:"added,removed,changed" doc:"What becomes of it."`
	// Fields are those that differ, and of an added or removed rule all that
	// are set.
	Fields []FieldDiff `json:"fields,omitempty" nullable:"false" doc:"What differs; of a rule that was added or removed, all that is set."`
}

// DiffKind is what becomes of a rule.
type DiffKind string

// The kinds.
const (
	DiffAdded   DiffKind = "added"
	DiffRemoved DiffKind = "removed"
	DiffChanged DiffKind = "changed"
)

// FieldDiff is what becomes of one field of a rule. Before or After is left out
// where the field is not set.
type FieldDiff struct {
	// Path leads to the field, such as priority, when.attributes.tier or
	// bands[hourly].capacity: a band is named by its label, without one by its
	// position. The path of what was added to a set or removed from it ends in
	// [+] or [-]; bands.order is the order of the bands. A name that is not
	// plain is in brackets and quotes: attributes["a.b"].
	Path   string          `json:"path" doc:"Which field, such as bands[hourly].capacity; [+] and [-] at its end are what was added to a set or removed from it."`
	Before json.RawMessage `json:"before,omitempty" doc:"What it was."`
	After  json.RawMessage `json:"after,omitempty" doc:"What it is."`
}

// Diff is how one rule set becomes another, rule by rule, in the order they are
// evaluated, with removed rules where they would be. Either may be nil, for one
// that does not exist.
//
// It compares what rules mean: a field that is left out is the same as its
// default, and the order of a set does not count. A policy that is left out is
// the engine's, and so differs from any that is set. CreatedAt and UpdatedAt are
// ignored: see [Stamp].
func Diff(before, after *fluxgate.RuleSet) []RuleDiff {
	was, is := byID(before), byID(after)
	all := slices.Collect(maps.Values(is))
	for id, r := range was {
		if is[id] == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *fluxgate.Rule) int { // as they are evaluated
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	var diffs []RuleDiff
	for _, r := range all {
		if d := compareRules(was[r.ID], is[r.ID]); len(d.Fields) > 0 || d.Change != DiffChanged {
			d.Rule = r.ID
			diffs = append(diffs, d)
		}
	}
	return diffs
}

// compareRules is what becomes of a rule, which is nil before it was added and
// after it was removed. The defaults of what does not exist are not shown.
func compareRules(old, now *fluxgate.Rule) RuleDiff {
	d := RuleDiff{Change: DiffChanged}
	switch none := new(fluxgate.Rule); {
	case old == nil:
		d.Change, d.Fields = DiffAdded, compare(none, now)
		for i := range d.Fields {
			d.Fields[i].Before = nil
		}
	case now == nil:
		d.Change, d.Fields = DiffRemoved, compare(old, none)
		for i := range d.Fields {
			d.Fields[i].After = nil
		}
	default:
		d.Fields = compare(old, now)
	}
	return d
}

// byID are the rules of a rule set, which may be nil.
func byID(set *fluxgate.RuleSet) map[string]*fluxgate.Rule {
	all := map[string]*fluxgate.Rule{}
	if set != nil {
		for r := range set.Rules() {
			all[r.ID] = &r
		}
	}
	return all
}

// Abridge is the diff in at most so many bytes of JSON. It leaves out fields, and
// at last rules; left is how many rules are not complete.
func Abridge(diffs []RuleDiff, most int) (short []RuleDiff, left int) {
	room := most - len("null")
	for i, d := range diffs {
		bare := RuleDiff{Rule: d.Rule, Change: d.Change}
		if room -= size(bare); room < 0 {
			return short, left + len(diffs) - i
		}
		const list = len(`"fields":[],`)
		for j, f := range d.Fields {
			need := size(f)
			if j == 0 {
				need += list
			}
			if need > room {
				left++
				break
			}
			room -= need
			bare.Fields = append(bare.Fields, f)
		}
		short = append(short, bare)
	}
	return short, left
}

// size is how many bytes something takes in a list.
func size(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 1 << 30 // what cannot be written does not fit
	}
	return len(text) + len(",")
}
