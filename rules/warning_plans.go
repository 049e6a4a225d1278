package rules

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// plans warns about attributes for some of whose values there are limits, and no rule for the
// others: limits that differ in the values of one attribute alone.
func (l *linter) plans() {
	type plan struct {
		name string
		rest uint64
	}
	type state struct {
		rule    int // the first one
		decided bool
	}
	seed := maphash.MakeSeed()
	hashes, complete := make([]uint64, len(l.active)), map[uint64]bool{}
	for i := range l.active {
		if r := l.rule(i); r.enforced() {
			hashes[i] = hashMatching(seed, r)
			complete[hashes[i]] = true
		}
	}
	known, warned := map[plan]*state{}, map[string]bool{}
	for i := range l.active {
		r := l.rule(i)
		if !r.Limits() || !r.enforced() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.When.Attributes)) {
			values := r.When.Attributes[name]
			p := plan{name, hashes[i] - hashValues(seed, "attribute "+name, values)}
			if warned[name] || slices.Contains(values, "*") || complete[p.rest] {
				continue
			}
			first := known[p]
			if first == nil {
				known[p] = &state{rule: i}
				continue
			}
			if first.decided || sameValues(values, l.rule(first.rule).When.Attributes[name]) {
				continue
			}
			first.decided = true
			if l.hasDefault(first.rule, name) {
				continue
			}
			warned[name] = true
			l.add(WarnNoDefault, first.rule, Path{"when", "attributes", name},
				"and rule %s limit two values of the attribute %s, and no rule applies to the others: add a rule without this condition",
				l.id(i), printable.Quote(name))
		}
	}
}

// hasDefault reports whether a rule may apply to requests of a rule with another value of an
// attribute. Rules for single callers do not count.
func (l *linter) hasDefault(rule int, name string) bool {
	own := &l.rule(rule).When
	for i := len(l.active) - 1; i >= 0; i-- { // such rules are usually the last ones
		r := l.rule(i)
		w := &r.When
		values := w.Attributes[name]
		if !r.enforced() || len(values) > 0 && !slices.Contains(values, "*") ||
			len(w.Users) > 0 && len(own.Users) == 0 || len(w.APIKeys) > 0 && len(own.APIKeys) == 0 ||
			r.Action == ActionAllow && len(r.Methods) > 0 && len(l.rule(rule).Methods) == 0 ||
			len(w.IPs) > 0 && len(own.IPs) == 0 || len(w.Descriptor) > 0 && len(own.Descriptor) == 0 {
			continue
		}
		apart := l.compared.Apart(i, rule)
		if l.compared.Exhausted() {
			l.uncompared++
			return true
		}
		if !apart {
			return true
		}
	}
	return false
}

func sameValues(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// hashMatching is a sum of hashes of what a rule matches, in which each attribute is one summand.
func hashMatching(seed maphash.Seed, r *Rule) uint64 {
	w := &r.When
	sum := hashValues(seed, "paths", r.Paths) + hashValues(seed, "methods", r.Methods) + hashValues(seed, "hosts", w.Hosts) +
		hashValues(seed, "excludePaths", w.ExcludePaths) + hashValues(seed, "users", w.Users) + hashValues(seed, "apiKeys", w.APIKeys) +
		hashValues(seed, "case", []string{strconv.FormatBool(r.IgnoreCase)})
	for name, values := range w.Headers {
		sum += hashValues(seed, "header "+name, values)
	}
	for name, values := range w.Attributes {
		sum += hashValues(seed, "attribute "+name, values)
	}
	for _, network := range w.IPs {
		sum += hashValues(seed, "ip", []string{network.String()})
	}
	for i, m := range w.Descriptor {
		sum += hashValues(seed, "descriptor "+strconv.Itoa(i), append([]string{m.Key, m.Value}, m.Except...))
	}
	return sum
}

func hashValues(seed maphash.Seed, what string, values []string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, v := range append([]string{what}, values...) {
		maphash.WriteComparable(&h, len(v))
		_, _ = h.WriteString(v) // never fails
	}
	return h.Sum64()
}
