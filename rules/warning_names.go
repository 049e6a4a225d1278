package rules

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"unicode"

	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// maxNames is up to how many names are compared with each other. People do not write more
	// than that into one rule set.
	maxNames = 2_000
	// In words of minSwapped letters two may have changed places, in those of minAdded one may be
	// added, in those of minChanged one may be another: state and stage are different words.
	minSwapped, minAdded, minChanged = 4, 5, 6
)

// use is where a name is used.
type use struct {
	rule int // the first one
	path Path
	uses int // number of rules
	last int // rule
}

// names warns about names that one rule uses and that are one letter from another name.
func (l *linter) names() {
	attributes, headers := map[string]*use{}, map[string]*use{}
	for i := range l.active {
		r := l.rule(i)
		for _, name := range slices.Sorted(maps.Keys(r.When.Attributes)) {
			note(attributes, name, i, Path{"when", "attributes", name})
		}
		for _, name := range slices.Sorted(maps.Keys(r.When.Headers)) {
			note(headers, textproto.CanonicalMIMEHeaderKey(name), i, Path{"when", "headers", name})
		}
		for j, f := range r.KeyFields {
			if name, ok := strings.CutPrefix(f, "attr:"); ok {
				note(attributes, name, i, Path{"compositeKeyFields", j})
			}
			if name, ok := strings.CutPrefix(f, "header:"); ok {
				note(headers, textproto.CanonicalMIMEHeaderKey(name), i, Path{"compositeKeyFields", j})
			}
		}
	}
	l.similarNames("attribute", attributes)
	l.similarNames("header", headers)
}

func note(names map[string]*use, name string, rule int, path Path) {
	u := names[name]
	if u == nil {
		u = &use{rule: rule, path: path, last: -1}
		names[name] = u
	}
	if u.last != rule {
		u.uses, u.last = u.uses+1, rule
	}
}

func (l *linter) similarNames(what string, names map[string]*use) {
	if len(names) > maxNames {
		return
	}
	near := map[string][]string{} // names by what is left of them without one letter
	ordered := slices.Sorted(maps.Keys(names))
	for _, name := range ordered {
		for _, rest := range withoutOne(name) {
			near[rest] = append(near[rest], name)
		}
	}
	warned := map[string]bool{}
	for _, name := range ordered {
		u := names[name]
		if u.uses > 1 {
			continue
		}
		for _, rest := range withoutOne(name) {
			other := l.similar(name, names, near[rest])
			if other == "" || warned[name] || warned[other] {
				continue
			}
			warned[name] = true
			l.add(WarnName, u.rule, u.path, "has the %s %s, and rule %s has %s: is one misspelled?",
				what, printable.Quote(name), l.id(names[other].rule), printable.Quote(other))
		}
	}
}

// similar returns the first of other names that a name may be a misspelling of, or nothing.
func (l *linter) similar(name string, names map[string]*use, others []string) string {
	for _, other := range others {
		// The rarer name is the misspelled one; a rule with both means both.
		if other == name || names[other].uses == 1 && names[other].rule > names[name].rule || l.hasBoth(names[name].rule, other) {
			continue
		}
		if misspelled(name, other) {
			return other
		}
	}
	return ""
}

func (l *linter) hasBoth(rule int, other string) bool {
	r := l.rule(rule)
	_, attribute := r.When.Attributes[other]
	if attribute || slices.Contains(r.KeyFields, "attr:"+other) {
		return true
	}
	same := func(name string) bool { return textproto.CanonicalMIMEHeaderKey(name) == other }
	for name := range r.When.Headers {
		if same(name) {
			return true
		}
	}
	return slices.ContainsFunc(r.KeyFields, func(f string) bool {
		name, ok := strings.CutPrefix(f, "header:")
		return ok && same(name)
	})
}

// withoutOne returns a name in lower case, and without each one of its letters. Long names have none.
func withoutOne(name string) []string {
	if len(name) > maxIDLength || len(name) < minSwapped {
		return nil
	}
	name = strings.ToLower(name)
	list := make([]string, 0, len(name)+1)
	list = append(list, name)
	for i := range len(name) {
		if i == 0 || name[i] != name[i-1] {
			list = append(list, name[:i]+name[i+1:])
		}
	}
	return list
}

// misspelled reports whether two names differ in case alone, or in one word by one letter that is
// missing, added or changed, or by two letters that changed places. Plurals, digits and short words
// are different names.
func misspelled(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	first, second := words(a), words(b)
	if len(first) != len(second) {
		return false
	}
	differing := 0
	for i := range first {
		if first[i] == second[i] {
			continue
		}
		if differing++; differing > 1 || !misspelledWord(first[i], second[i]) {
			return false
		}
	}
	return differing == 1
}

// words splits a name at what is not a letter, and before capital letters.
func words(name string) (list []string) {
	start := 0
	for i := 0; i <= len(name); i++ {
		end := i == len(name) || !isLetter(name[i])
		if end || i > start && unicode.IsUpper(rune(name[i])) && unicode.IsLower(rune(name[i-1])) {
			if i > start {
				list = append(list, strings.ToLower(name[start:i]))
			}
			start = i
		}
		if end && i < len(name) {
			list = append(list, name[i:i+1])
			start = i + 1
		}
	}
	return list
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func misspelledWord(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	start := 0
	for start < len(a) && a[start] == b[start] {
		start++
	}
	restA, restB := a[start:], b[start:]
	switch len(b) - len(a) {
	case 0:
		swapped := len(restA) > 1 && restA[0] == restB[1] && restA[1] == restB[0] && restA[2:] == restB[2:]
		return swapped && len(a) >= minSwapped || restA[1:] == restB[1:] && len(a) >= minChanged
	case 1:
		return restA == restB[1:] && restB != "s" && len(a) >= minAdded
	}
	return false
}
