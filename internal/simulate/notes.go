package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
)

// contents are the parts of requests that any line of the logs has, in the spelling of
// compositeKeyFields, and the measures of costs. A rule that looks at others is not
// simulated as it would work.
type contents map[string]bool

// maxParts bounds how many parts are kept. A mapping has fewer.
const maxParts = 1_000

// add notes what a request has.
func (c contents) add(req *fluxgate.Request) {
	c.note("ip", req.IP.IsValid())
	c.note("userId", req.UserID != "")
	c.note("apiKey", req.APIKey != "")
	c.note("host", req.Host != "")
	for name := range req.Headers {
		c.note("header:"+strings.ToLower(name), true)
	}
	for name := range req.Attributes {
		c.note("attr:"+name, true)
	}
	for measure := range req.Costs {
		c.note("cost:"+measure, true)
	}
}

func (c contents) note(part string, present bool) {
	if present && len(c) < maxParts {
		c[part] = true
	}
}

// has reports whether any line has a part.
func (c contents) has(part string) bool {
	if strings.HasPrefix(part, "header:") {
		part = strings.ToLower(part)
	}
	return part == "method" || part == "path" || c[part]
}

// scopeFields are the parts of the keys of scopes, in the spelling of compositeKeyFields.
var scopeFields = map[rules.Scope][]string{rules.ScopeIP: {"ip"}, rules.ScopeUser: {"userId"}, rules.ScopeAPIKey: {"apiKey"}}

// needs are the parts of a request that a rule looks at.
func needs(r *rules.Rule) []string {
	parts := slices.Concat(scopeFields[r.Scope], r.KeyFields)
	add := func(part string, needed bool) {
		if needed && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	add("host", len(r.When.Hosts) > 0)
	add("ip", len(r.When.IPs) > 0)
	add("apiKey", len(r.When.APIKeys) > 0)
	add("descriptor", len(r.When.Descriptor) > 0)
	for _, condition := range r.Matching().Conditions {
		if texts, ok := condition.(match.OneOf); ok {
			add(texts.Text.String(), len(texts.Values) > 0)
		}
	}
	for name := range r.When.Headers {
		add("header:"+name, true)
	}
	for name := range r.When.Attributes {
		add("attr:"+name, true)
	}
	return parts
}

// needsHeaders reports whether a rule looks at headers.
func needsHeaders(set *rules.Set) bool {
	for r := range set.Rules() {
		if slices.ContainsFunc(needs(&r), func(part string) bool { return strings.HasPrefix(part, "header:") }) {
			return true
		}
	}
	return false
}

// notes say where a rule set is simulated differently from how a server decides.
func (r *replica) notes(has contents) []string {
	var notes []string
	for _, c := range r.rules {
		say := func(format string, args ...any) {
			notes = append(notes, fmt.Sprintf("rule %s of %s: ", c.rule.ID, r.set.ID())+fmt.Sprintf(format, args...))
		}
		parts := needs(c.rule)
		slices.Sort(parts)
		parts = slices.DeleteFunc(parts, has.has)
		if len(parts) > 0 {
			say("it looks at %s, which no line has", strings.Join(parts, ", "))
		}
		if slices.ContainsFunc(c.rule.Bands, func(b rules.Band) bool { return b.Kind == rules.Concurrency }) {
			say("requests at the same time are not simulated, because a log does not say how long each of them ran")
		}
		if c.rule.OnLimitExceed == rules.WaitForRefill {
			say("requests that a server would hold until their tokens are due count as limited")
		}
		if c.rule.Mode == rules.ModeShadow && c.rule.Action != "" && c.rule.Action != rules.ActionLimit {
			say("a rule in shadow mode that does not limit has no effect")
		}
		if measure := c.rule.Measure(); measure != rules.MeasureRequests && !has.has("cost:"+measure) {
			say("no line has a cost in %s, so every request costs 1: name the field with --field cost.%s=NAME", measure, measure)
		}
	}
	if evicted := r.store.Stats().Evicted; evicted > 0 {
		notes = append(notes, fmt.Sprintf("%d buckets of %s were evicted before they were full, because there were more than "+
			"1,000,000: fewer requests are limited than should be", evicted, r.set.ID()))
	}
	return notes
}
