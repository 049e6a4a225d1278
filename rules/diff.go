package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// RuleDiff is the difference between two versions of a rule.
type RuleDiff struct {
	// Rule is its id, or [DiffCostTables].
	Rule   string   `json:"rule" doc:"The rule, or \"cost tables\"."`
	Change DiffKind `json:"change" enum:"added,removed,changed" doc:"How the rule differs."`
	// Measure is what the rule counts before and after. It is empty for requests.
	Measure string `json:"measure,omitempty" doc:"What the rule counts. Absent for requests, and if it changes."`
	// Fields are the fields that differ. For an added or removed rule they are all
	// fields that are set.
	Fields []FieldDiff `json:"fields,omitempty" nullable:"false" doc:"The fields that differ; of an added or removed rule, all."`
}

// DiffCostTables is in [RuleDiff.Rule] of a difference between the cost tables of two
// rule sets. It is not a valid id.
const DiffCostTables = "cost tables"

// DiffKind is how a rule differs.
type DiffKind string

// The kinds.
const (
	DiffAdded   DiffKind = "added"
	DiffRemoved DiffKind = "removed"
	DiffChanged DiffKind = "changed"
)

// FieldDiff is the difference of one field of a rule. Before or After is empty
// if the field is not set.
type FieldDiff struct {
	// Path names the field, such as priority, when.attributes.tier or
	// bands[hourly].capacity: a band is named by its label, or by its position
	// if it has none. [+] or [-] at the end means added to or removed from a
	// set; bands.order is the order of the bands. A name with special
	// characters is in brackets and quotes: attributes["a.b"].
	Path   string          `json:"path" doc:"The field, such as bands[hourly].capacity; [+] or [-] at its end: an added or removed value."`
	Before json.RawMessage `json:"before,omitempty" doc:"The old value."`
	After  json.RawMessage `json:"after,omitempty" doc:"The new value."`
}

// Diff returns how two rule sets differ: their cost tables, then rule by rule in
// evaluation order; removed rules are at their old position. Either may be nil, for
// a rule set that does not exist.
//
// It compares meaning: an absent field equals its default, and the order of a
// set is ignored. An absent policy means the engine's, so it differs from any
// policy that is set. CreatedAt and UpdatedAt are ignored: see [Stamp].
func Diff(before, after *Set) []RuleDiff {
	was, is := byID(before), byID(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	ordered := slices.SortedFunc(maps.Values(all), func(a, b *Rule) int { // as they are evaluated
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	diffs := diffTables(before, after)
	for _, r := range ordered {
		if d := compareRules(was[r.ID], is[r.ID]); len(d.Fields) > 0 || d.Change != DiffChanged {
			d.Rule = r.ID
			if old := was[r.ID]; r.Measure() != MeasureRequests && (old == nil || old.Measure() == r.Measure()) {
				d.Measure = r.Measure()
			}
			diffs = append(diffs, d)
		}
	}
	return diffs
}

// compareRules compares a rule, which is nil before it was added and after it
// was removed. The defaults of a missing rule are not shown.
func compareRules(old, now *Rule) RuleDiff {
	d := RuleDiff{Change: DiffChanged}
	switch none := new(Rule); {
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

// byID returns the rules of a rule set, which may be nil.
func byID(set *Set) map[string]*Rule {
	all := map[string]*Rule{}
	if set != nil {
		for r := range set.Rules() {
			all[r.ID] = &r
		}
	}
	return all
}

// Abridge returns as many of the first rules of a diff as take at most most bytes of JSON. left is
// the number of the others.
func Abridge(diffs []RuleDiff, most int) (short []RuleDiff, left int) {
	for i, d := range diffs {
		text, err := json.Marshal(d)
		if most -= len(text) + len("[]"); err != nil || most < 0 {
			return diffs[:i], len(diffs) - i
		}
	}
	return diffs, 0
}
