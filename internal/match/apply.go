package match

// A rule is what is left of a Rule once it is compiled, small enough that the rules
// of a request are all that a match has to read.
type rule struct {
	when   *conditions // nil if the path is all that counts
	group  int32       // or none
	shadow bool
	final  bool
}

// appendApplying appends those of the candidates that apply. Candidates are in
// priority order and may be there more than once, when several patterns or values of
// one rule match.
func (m *Matcher) appendApplying(dst []int32, candidates []candidate, q *query) []int32 {
	marks := make(map[int32]bool, 8) // which groups have had their enforced and their shadow rule
	last := none
	for _, c := range candidates {
		i := c.rule()
		if i == last {
			continue // a proven candidate comes before others of its rule
		}
		last = i
		r := &m.rules[i]
		// An enforced rule excludes later rules of its group, a shadow rule later shadow rules.
		if r.group != none && (marks[2*r.group] || r.shadow && marks[mark(r)]) {
			continue
		}
		if !c.proven() {
			if obstacle, _ := r.when.obstacle(q); obstacle != "" {
				continue
			}
		}
		if r.group != none {
			marks[mark(r)] = true
		}
		dst = append(dst, i)
		if r.final && !r.shadow {
			break
		}
	}
	return dst
}

// mark is the mark a rule leaves when it applies.
func mark(r *rule) int32 {
	if r.shadow {
		return 2*r.group + 1
	}
	return 2 * r.group
}
