package rules

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/strictjson"
)

// Parse reads a rule set from JSON: an id and its rules in the shape of
// the control plane. Unknown fields, duplicate names and missing rules are errors: [] is a
// rule set without rules. Like [NewSet] it reports all problems at once.
func Parse(data []byte) (*Set, error) {
	doc, err := ReadObject(data)
	if err != nil {
		return nil, fmt.Errorf("reading a rule set: %w", err)
	}
	return DecodeSet(doc)
}

// ReadObject reads a JSON object that is a part of rules or overrides, with numbers as
// [json.Number]. Duplicate names are a [*ValidationError]; other errors name a line and a column.
func ReadObject(data []byte) (map[string]any, error) {
	if n := countValues(data); n > maxValues {
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	doc, err := strictjson.Object(data)
	var twice *strictjson.DuplicateError
	if !errors.As(err, &twice) {
		return doc, err
	}
	invalid := &ValidationError{}
	invalid.RuleSetID, _ = doc["id"].(string)
	for _, d := range twice.Names {
		invalid.Problems = append(invalid.Problems, Problem{Code: CodeDuplicate, Path: d.Path, Message: d.Message})
	}
	return nil, invalid
}

// maxValues bounds the memory that a document needs: a short text can be a large
// tree.
const maxValues = 2_000_000

// countValues is about how many values a JSON text has: it counts separators.
func countValues(text []byte) int {
	count, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case !inside && (c == ',' || c == '{' || c == '['):
			count++
		}
	}
	return count
}

// DecodeRule reads one rule from a document that other programs may extend: a
// tree of maps, lists and scalars. It ignores unknown fields and reports those
// that cannot be read, with paths inside the rule; [NewSet] validates their
// values. The rule is normalized as in a rule set, with digests of API keys.
func DecodeRule(doc map[string]any) (Rule, error) {
	var found problems
	rule := decodeRule(&object{reporter: reporter{found: &found}, fields: doc, lenient: true})
	if err := found.err(rule.RuleSetID); err != nil {
		return Rule{}, err
	}
	return rule.clone(), nil
}

// DecodeSet is [Parse] for a document that is already a tree of maps,
// lists and scalars.
func DecodeSet(doc map[string]any) (*Set, error) { return decodeSet(&object{fields: doc}) }

// DecodeFile is [DecodeSet] for what people write. Numbers of bands that count money may have
// its currency: the capacity "500 USD" is 500,000,000 if the cost of the rule is usd.
func DecodeFile(doc map[string]any) (*Set, error) {
	return decodeSet(&object{fields: doc, written: true})
}

func decodeSet(top *object) (*Set, error) {
	var found problems
	top.found = &found
	id := top.text("id")
	tables := decodeCostTables(top)
	if top.get("rules") == nil {
		// A document that ends after the id must not delete every rule.
		top.at("rules").add(CodeRequired, "is required: write [] for a rule set without rules")
	}
	var rules []Rule
	for _, o := range top.objects("rules", MaxRules) {
		rules = append(rules, decodeRule(o))
	}
	top.refuseUnknown()
	for _, p := range found.all {
		found.unreadable = append(found.unreadable, p.Path)
	}
	return newRuleSet(id, rules, tables, &found)
}

func decodeRule(o *object) Rule {
	r := Rule{
		ID:                cmp.Or(o.text("id"), o.text("_id")),
		RuleSetID:         o.text("ruleSetId"),
		Paths:             o.listOf("path", "paths"),
		IgnoreCase:        o.boolean("ignoreCase", false),
		Methods:           o.listOf("method", "methods"),
		Scope:             Scope(o.text("limitScope")),
		KeyFields:         o.texts("compositeKeyFields"),
		Cost:              o.text("cost"),
		Priority:          int(o.integer("priority")),
		Group:             o.text("group"),
		Action:            Action(o.text("action")),
		Disabled:          !o.boolean("enabled", true),
		Until:             o.moment("until"),
		OnLimitExceed:     Policy(o.text("onLimitExceed")),
		Mode:              Mode(o.text("mode")),
		OnFailure:         OnFailure(o.text("onFailure")),
		Consistency:       Consistency(o.text("consistency")),
		OnMissingIdentity: OnMissingIdentity(o.text("onMissingIdentity")),
		Overdraft:         o.boolean("overdraft", false),
		CountRefused:      o.boolean("countRefused", false),
		Replaces:          o.texts("replaces"),
		Attributes:        read(o, "attributes", "an object", is[map[string]any]),
		CreatedAt:         o.moment("createdAt"),
		UpdatedAt:         o.moment("updatedAt"),
	}
	if when := o.object("when"); when != nil {
		r.When = decodeWhen(when)
	}
	for _, b := range o.objects("bands", bucket.MaxBands) {
		r.Bands = append(r.Bands, decodeBand(b, r.Measure()))
	}
	o.refuseUnknown()
	return r
}

// decodeBand reads a band of a rule that counts a measure, which is empty if it is not known.
// [NewSet] refuses fields that its kind does not have.
func decodeBand(o *object, measure string) Band {
	b := Band{
		Kind:     BandKind(o.text("kind")),
		Label:    o.text("label"),
		Timezone: o.text("timezone"),
		Hold:     o.period("hold"),
		WarnAt:   o.percents("warnAt"),
	}
	b.Capacity, b.RefillTokens = o.tokens("capacity", measure, &b), o.tokens("refillTokens", measure, &b)
	if o.get("refillTokens") != nil && b.RefillTokens == 0 {
		o.at("refillTokens").add(CodeOutOfRange, "must be at least 1")
	}
	if b.Kind != SlidingWindow {
		b.Period = Period(o.text("period"))
	}
	before := len(o.found.all)
	b.Refill = o.refill(b.Kind)
	if b.Refill == 0 && len(o.found.all) > before {
		o.found.unreadable = append(o.found.unreadable, o.at("refill").path) // under any name
	}
	if o.get("windowSeconds") != nil && b.RefillTokens != 0 && b.RefillTokens != b.Capacity {
		o.at("refillTokens").add(CodeInconsistent, "must be the capacity or be left out where windowSeconds is set")
	}
	o.refuseUnknown()
	return b
}

// refill reads a period from refill ("100ms") or refillSeconds, or for a sliding
// window from period; windowSeconds is an older name for a period in which the whole
// capacity is refilled.
func (o *object) refill(kind BandKind) (refill time.Duration) {
	names := []string{"refill", "refillSeconds", "windowSeconds"}
	if kind == SlidingWindow {
		names = append(names, "period")
	}
	var first string
	given := false
	for _, name := range names {
		given = o.get(name) != nil || given
		switch period := o.period(name); {
		case period == 0:
		case first == "":
			refill, first = period, name
		case period != refill:
			o.at(name).add(CodeInconsistent, "is another period than %s", first)
		}
	}
	switch {
	case given || kind == Quota || kind == Concurrency:
	case kind == SlidingWindow:
		o.at("period").add(CodeRequired, "is required: a duration such as 1m")
	default:
		o.at("refill").add(CodeRequired, "is required: a period such as 1s, here or in refillSeconds")
	}
	return refill
}
