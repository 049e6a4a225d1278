package envoyrules

import "strings"

// branch is what a descriptor matches besides its siblings.
type branch struct {
	// except are values that siblings match first, in the form of
	// rules.DescriptorMatch.
	except []string
	// unreachable means that the wildcard of the sibling by matches all values first.
	unreachable bool
	by          int
}

// branches returns what each of some valid siblings matches. At one level
// envoyproxy/ratelimit tries the value, then the wildcards in the order of the file, then
// the key alone. It reports false if that takes more than room values under except.
func branches(siblings []Descriptor, room int) (found []branch, ok bool) {
	found = make([]branch, len(siblings))
	byKey := map[string]*sameKey{}
	for i := range siblings {
		k := byKey[siblings[i].Key]
		if k == nil {
			k = &sameKey{without: -1}
			byKey[siblings[i].Key] = k
		}
		switch {
		case isWildcard(&siblings[i]):
			k.wildcards = append(k.wildcards, i)
		case siblings[i].Value != "":
			k.exact = append(k.exact, siblings[i].Value)
		default:
			k.without = i
		}
	}
	for _, k := range byKey {
		var before []int // wildcards that can match
		for _, i := range k.wildcards {
			found[i] = k.branch(siblings, siblings[i].Value, before)
			if !found[i].unreachable {
				before = append(before, i)
			}
			if room -= len(found[i].except); room < 0 {
				return nil, false
			}
		}
		if k.without >= 0 {
			found[k.without] = k.branch(siblings, "*", before)
			if room -= len(found[k.without].except); room < 0 {
				return nil, false
			}
		}
	}
	return found, true
}

// sameKey are the siblings with one key.
type sameKey struct {
	exact     []string
	wildcards []int // in the order of the file
	without   int   // the one without a value, or -1
}

// branch returns what a wildcard matches after the values and the wildcards before it.
func (k *sameKey) branch(siblings []Descriptor, wildcard string, before []int) branch {
	var b branch
	for _, value := range k.exact {
		if covers(wildcard, value) {
			b.except = append(b.except, value)
		}
	}
	for _, i := range before {
		other := siblings[i].Value
		if covers(other, wildcard) {
			return branch{unreachable: true, by: i}
		}
		if covers(wildcard, other) {
			b.except = append(b.except, other)
		}
	}
	return b
}

// covers reports whether all values of a value or wildcard match a wildcard.
func covers(wildcard, value string) bool {
	return strings.HasPrefix(value, strings.TrimSuffix(wildcard, "*"))
}
