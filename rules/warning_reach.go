package rules

// compare warns about rules by the other rules that hold for all of their requests.
func (l *linter) compare() {
	exempted := make([][]string, len(l.active)) // by a rule that exempts them
	mixed := map[string]bool{}                  // groups with a warning
	ends := l.endsAfter()
	for b := range l.active {
		covering := l.compared.Covering(b)
		if l.compared.Exhausted() {
			l.uncompared = len(l.active) - b
			break
		}
		l.mixedGroup(b, covering, mixed)
		if l.compared.Never(b) {
			l.add(WarnUnreachable, b, Path{"when", "excludePaths"}, "applies to no request: excludePaths has all of its paths")
			continue
		}
		stopped := false
		for _, a := range covering {
			if stopped = l.stops(int(a), b); !stopped {
				continue
			}
			if l.rule(int(a)).Action == ActionAllow && l.rule(b).Limits() {
				exempted[a] = append(exempted[a], l.id(b))
			} else {
				l.add(WarnUnreachable, b, nil, "applies to no request: %s", l.reason(int(a), b))
			}
			break
		}
		if !stopped {
			l.reachedFirst(b, covering, ends[b])
		}
	}
	for a, limits := range exempted {
		if len(limits) > 0 {
			l.add(WarnExempted, a, Path{"action"}, "exempts all requests of the limit of rule %s", some(limits))
		}
	}
}

// stops reports whether rule b never applies because of rule a, whose conditions hold for all of
// its requests.
func (l *linter) stops(a, b int) bool {
	x, y := l.rule(a), l.rule(b)
	if a > b {
		return false
	}
	if x.Group != "" && x.Group == y.Group && (x.enforced() || !y.enforced()) {
		return true // what displaces a, displaces b
	}
	return !x.Limits() && x.enforced() && l.leads(a)
}

// leads reports whether no other rule can displace a rule in its group.
func (l *linter) leads(i int) bool {
	group := l.rule(i).Group
	return group == "" || l.leaders[group] == int32(i)
}

func (l *linter) reason(a, b int) string {
	switch x := l.rule(a); {
	case x.Group != "" && x.Group == l.rule(b).Group:
		return "rule " + l.id(a) + " of the same group matches all of them and comes first"
	case x.Action == ActionDeny:
		return "rule " + l.id(a) + " denies all of them"
	}
	return "rule " + l.id(a) + " allows all of them"
}

// endsAfter returns the position of the next enforced rule after each that ends the evaluation.
func (l *linter) endsAfter() []int {
	next := make([]int, len(l.active))
	end := len(l.active)
	for i := len(l.active) - 1; i >= 0; i-- {
		next[i] = end
		if r := l.rule(i); !r.Limits() && r.enforced() {
			end = i
		}
	}
	return next
}

// mixedGroup warns if a request that two rules of a group match counts in the measure of one of
// them only.
func (l *linter) mixedGroup(b int, covering []int32, done map[string]bool) {
	y := l.rule(b)
	if y.Group == "" || done[y.Group] || !y.Limits() || !y.enforced() {
		return
	}
	for _, a := range covering {
		x := l.rule(int(a))
		if x.Group != y.Group || !x.Limits() || !x.enforced() {
			continue
		}
		if what, other := x.counts(), y.counts(); what != other {
			done[y.Group] = true
			l.add(WarnMixedGroup, b, Path{"cost"},
				"counts %s and rule %s of the same group counts %s: of requests that match both, %s are not limited",
				other, l.id(int(a)), what, map[bool]string{true: other, false: what}[int(a) < b])
			return
		}
	}
}

// counts is what the rule counts.
func (r *Rule) counts() string {
	for i := range r.Bands {
		if r.Bands[i].Kind != Concurrency {
			return r.Measure()
		}
	}
	return "concurrent requests"
}
