// Package spelling suggests the known name that an unknown one probably means.
package spelling

import (
	"slices"
	"strings"
)

// Plain returns a name in lower case without - _ and dots.
func Plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// Nearest returns the one of names that name probably means, "" if none is near.
// synonyms has names by plain spellings that are used elsewhere.
func Nearest(name string, names []string, synonyms map[string]string) string {
	wanted := Plain(name)
	for _, n := range names {
		if Plain(n) == wanted {
			return n
		}
	}
	if other := synonyms[wanted]; slices.Contains(names, other) {
		return other
	}
	best, least := "", max(2, len(wanted)/5)+1
	if len(wanted) < 4 {
		least = 2
	}
	for _, n := range names {
		if d := distance(wanted, Plain(n)); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return containing(wanted, names)
	}
	return best
}

// containing returns the only name that contains the wanted one or is contained in it,
// as PUBSUB is in REDIS_PUBSUB.
func containing(wanted string, names []string) string {
	const least = 4 // shorter matches are coincidence
	found := ""
	for _, n := range names {
		p := Plain(n)
		if len(p) < least || len(wanted) < least || !strings.Contains(p, wanted) && !strings.Contains(wanted, p) {
			continue
		}
		if found != "" {
			return ""
		}
		found = n
	}
	return found
}

// distance returns how many letters are added, missing, different or swapped with their
// neighbours.
func distance(a, b string) int {
	const most = 100
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	var before []int // the row before last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
