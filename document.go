package fluxgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// ParseRuleSet reads a rule set from JSON: an id and its rules in the shape of
// the control plane. Unknown fields are errors. Like [NewRuleSet] it reports
// everything that is wrong at once.
func ParseRuleSet(data []byte) (*RuleSet, error) {
	if n := countValues(data); n > maxValues {
		return nil, fmt.Errorf("reading a rule set: it has more than %d values", maxValues)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("reading a rule set: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading a rule set: something stands after the closing brace")
	}
	return DecodeRuleSet(doc)
}

// maxValues is how many values a document may have: a short text can be a tree
// that fills the memory. The largest rule set of the usual kind has a third.
const maxValues = 2_000_000

// countValues is about how many values a JSON text has, by what stands between
// them.
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

// DecodeOption changes how a document is read.
type DecodeOption func(*object)

// IgnoreUnknown reads over fields that are not known. Files and people who
// write rules want to hear of them; documents that others may extend have them
// on purpose.
func IgnoreUnknown() DecodeOption {
	return func(o *object) { o.lenient = true }
}

// DecodeRule reads one rule from a document that is already a tree of maps,
// lists and scalars. It reports fields that cannot be read, with places inside
// of the rule; whether the rule makes sense is for [NewRuleSet] to say. The rule
// is spelled as a rule set spells it, with digests of API keys.
func DecodeRule(doc map[string]any, options ...DecodeOption) (Rule, error) {
	var found problems
	rule := decodeRule(newObject(doc, &found, options))
	if len(found) > 0 {
		return Rule{}, &ValidationError{RuleSetID: rule.RuleSetID, Problems: found}
	}
	return rule.clone(), nil
}

// DecodeRuleSet is ParseRuleSet for a document that is already a tree of maps,
// lists and scalars, from whatever format it came.
func DecodeRuleSet(doc map[string]any, options ...DecodeOption) (*RuleSet, error) {
	var found problems
	top := newObject(doc, &found, options)
	id := top.text("id")
	var rules []Rule
	for _, o := range top.objects("rules", MaxRules) {
		rules = append(rules, decodeRule(o))
	}
	top.refuseUnknown()
	if len(found) > 0 {
		// Say what validation has to say too, so that one look is enough.
		// Where a value could not be read, its place is known already.
		_, err := NewRuleSet(id, rules...)
		var invalid *ValidationError
		if errors.As(err, &invalid) {
			found = append(found, newPlaces(found, invalid.Problems)...)
			found = found[:min(len(found), maxProblems)]
		}
		found.sort()
		return nil, &ValidationError{RuleSetID: id, Problems: found}
	}
	return NewRuleSet(id, rules...)
}

// newPlaces are the problems in more that do not follow from one in known: a
// value that could not be read is missing when the rules are validated.
func newPlaces(known, more []Problem) []Problem {
	var fresh []Problem
	for _, p := range more {
		if !slices.ContainsFunc(known, func(k Problem) bool { return follows(spelledOnce(p.Place), spelledOnce(k.Place)) }) {
			fresh = append(fresh, p)
		}
	}
	return fresh
}

// follows reports whether a problem at place may follow from an unreadable
// value: at the same place, around place, or an element of the list at place.
func follows(place, unreadable string) bool {
	if rest, ok := strings.CutPrefix(place, unreadable); ok {
		return rest == "" || rest[0] == '.' || rest[0] == '['
	}
	element, ok := strings.CutPrefix(unreadable, place)
	return ok && element[0] == '[' && strings.IndexByte(element, ']') == len(element)-1
}

// spelledOnce is a place with the one spelling of a field that validation uses.
func spelledOnce(place string) string {
	dot := strings.LastIndexByte(place, '.')
	switch place[dot+1:] {
	case "_id":
		return place[:dot+1] + "id"
	case "refillSeconds", "windowSeconds":
		return place[:dot+1] + "refill"
	}
	return place
}

func decodeRule(o object) Rule {
	r := Rule{
		ID:                o.textOf("id", "_id"),
		RuleSetID:         o.text("ruleSetId"),
		Paths:             o.listOf("path", "paths"),
		IgnoreCase:        o.boolean("ignoreCase", false),
		Methods:           o.listOf("method", "methods"),
		Scope:             Scope(o.text("limitScope")),
		KeyFields:         o.texts("compositeKeyFields"),
		Priority:          int(o.integer("priority")),
		Group:             o.text("group"),
		Action:            Action(o.text("action")),
		Disabled:          !o.boolean("enabled", true),
		OnLimitExceed:     Policy(o.text("onLimitExceed")),
		Mode:              Mode(o.text("mode")),
		OnFailure:         OnFailure(o.text("onFailure")),
		OnMissingIdentity: OnMissingIdentity(o.text("onMissingIdentity")),
		Attributes:        o.tree("attributes"),
		CreatedAt:         o.moment("createdAt"),
		UpdatedAt:         o.moment("updatedAt"),
	}
	if when, ok := o.object("when"); ok {
		r.When = decodeWhen(when)
	}
	for _, b := range o.objects("bands", MaxBands) {
		r.Bands = append(r.Bands, decodeBand(b))
	}
	o.refuseUnknown()
	return r
}

func decodeWhen(o object) When {
	w := When{
		Hosts:        o.texts("hosts"),
		ExcludePaths: o.texts("excludePaths"),
		Headers:      o.values("headers"),
		Attributes:   o.values("attributes"),
		Users:        o.texts("users"),
		APIKeys:      o.texts("apiKeys"),
	}
	for i, s := range o.texts("ips") {
		prefix, err := parsePrefix(s)
		if err != nil {
			o.found.add(fmt.Sprintf("%s[%d]", o.at("ips"), i), "must be a network such as 10.0.0.0/8 or an address, not %s", quote(s))
			continue
		}
		w.IPs = append(w.IPs, prefix)
	}
	o.refuseUnknown()
	return w
}

// parsePrefix reads a network, or an address as the network of it alone.
func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// decodeBand reads a band. Its period stands in refill ("100ms") or
// refillSeconds; windowSeconds is an older spelling that says both the period
// and that the whole capacity comes back in it.
func decodeBand(o object) Band {
	b := Band{
		Kind:         BandKind(o.text("kind")),
		Label:        o.text("label"),
		Capacity:     o.integer("capacity"),
		RefillTokens: o.integer("refillTokens"),
	}
	if o.has("refillTokens") && b.RefillTokens == 0 {
		o.found.add(o.at("refillTokens"), "must be at least 1")
	}
	var said string
	for _, name := range []string{"refill", "refillSeconds", "windowSeconds"} {
		period, ok := o.period(name)
		if !ok {
			continue
		}
		if said != "" && period != b.Refill {
			o.found.add(o.at(name), "says another period than %s", said)
		}
		b.Refill, said = period, name
	}
	if o.has("windowSeconds") && b.RefillTokens != 0 && b.RefillTokens != b.Capacity {
		o.found.add(o.at("refillTokens"), "must be the capacity, or be left out, where windowSeconds is given")
	}
	if said == "" && !o.has("refill") && !o.has("refillSeconds") && !o.has("windowSeconds") {
		o.found.add(o.at("refill"), "must say the period, such as 1s, here or in refillSeconds")
	}
	o.refuseUnknown()
	return b
}
