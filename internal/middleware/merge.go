package middleware

import (
	"iter"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// merge writes the lists if there are too many entries, or if an outer limiter has
// written some. The outer limiter's entries come first; the binding one of this
// decision is always included.
func (v headerValues) merge(h map[string][]string, d *fluxgate.Decision) {
	entries := parseEntries(h[v.names[stateHeader]], h[v.names[policyHeader]])
	binding := d.RuleID + "." + d.Band
	for b := range d.Bands() {
		if b.Shadow() || b.Status == store.Unavailable || b.Status == store.NotAsked {
			continue
		}
		name := b.Rule.ID + "." + b.Band.Name()
		quoted := quote(name)
		entries = slices.DeleteFunc(entries, func(e headerEntry) bool { return e.name == quoted })
		entries = append(entries, headerEntry{
			name: quoted, policy: policyOf(quoted, b.Rule.Measure(), b.Limit, b.Band),
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

// headerEntry is the entry of one band in both lists.
type headerEntry struct {
	name, policy, state string
	binding             bool
}

// parseEntries parses entries of limiters. Entries that are not in both lists are
// dropped.
func parseEntries(states, policies []string) []headerEntry {
	var entries []headerEntry
	for item := range items(states) {
		item = strings.TrimSpace(item)
		entries = append(entries, headerEntry{name: nameOf(item), state: item})
	}
	for item := range items(policies) {
		item = strings.TrimSpace(item)
		name := nameOf(item)
		if i := slices.IndexFunc(entries, func(e headerEntry) bool { return e.name == name }); i >= 0 {
			entries[i].policy = item
		}
	}
	return slices.DeleteFunc(entries, func(e headerEntry) bool { return e.policy == "" })
}

// items returns the entries of the lines of a list.
func items(lines []string) iter.Seq[string] { return strings.SplitSeq(strings.Join(lines, ","), ",") }

// nameOf returns the name of an entry, without its parameters.
func nameOf(item string) string {
	name, _, _ := strings.Cut(item, ";")
	return name
}
