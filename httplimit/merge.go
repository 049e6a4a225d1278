package httplimit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// merge writes the lists where there is more to say than fits, or where
// an outer limiter has said something. The outer limiter's entries come first;
// the binding one of this decision is always there.
func (v *headerValues) merge(h http.Header, d *fluxgate.Decision) {
	entries := parseEntries(h[headerNames[stateHeader]], h[headerNames[policyHeader]])
	binding := d.RuleID + "." + d.Band
	for b := range d.Bands() {
		if b.Shadow() || b.Status == fluxgate.Unavailable {
			continue
		}
		name := b.Rule.ID + "." + b.Band.Name()
		quoted := quote(name)
		entries = slices.DeleteFunc(entries, func(e entry) bool { return e.name == quoted })
		entries = append(entries, entry{
			name: quoted, policy: policyOf(quoted, b.Limit, b.Band),
			state: quoted + string(appendState(nil, &b, d)), binding: name == binding,
		})
	}
	for i := len(entries) - 1; len(entries) > maxEntries; i-- {
		if !entries[i].binding {
			entries = slices.Delete(entries, i, i+1)
		}
	}
	var states, policies []byte
	for i, e := range entries {
		if i > 0 {
			states, policies = append(states, ", "...), append(policies, ", "...)
		}
		states, policies = append(states, e.state...), append(policies, e.policy...)
	}
	if len(entries) == 0 {
		return
	}
	v.set(h, stateHeader, string(states))
	v.set(h, policyHeader, string(policies))
}

// entry is what the lists say about one band.
type entry struct {
	name, policy, state string
	binding             bool
}

// parseEntries reads back what limiters have written. What others have written
// and is not in both lists is dropped.
func parseEntries(states, policies []string) []entry {
	var entries []entry
	for item := range items(states) {
		entries = append(entries, entry{name: nameOf(item), state: item})
	}
	for item := range items(policies) {
		name := nameOf(item)
		if i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name }); i >= 0 {
			entries[i].policy = item
		}
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.policy == "" })
}

// items are the entries of a list's lines.
func items(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for item := range strings.SplitSeq(line, ",") {
				if !yield(strings.Trim(item, " \t")) {
					return
				}
			}
		}
	}
}

// nameOf is what stands in front of an entry's parameters.
func nameOf(item string) string {
	name, _, _ := strings.Cut(item, ";")
	return name
}
