// Package spelling suggests the known name that an unknown one probably means.
package spelling

import "strings"

// plain returns a name in lower case without - _ and dots.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// Nearest returns the one of names that name probably means, "" if none is near: the one with the
// fewest different letters, at most two, or a fifth of a long name.
func Nearest(name string, names []string) string {
	wanted := plain(name)
	best, least := "", max(2, len(wanted)/5)+1
	if len(wanted) < 4 {
		least = 2
	}
	for _, n := range names {
		if d := distance(wanted, plain(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns how many letters are added, missing or different.
func distance(a, b string) int {
	const most = 100
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1) // from the first letters of a to those of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
