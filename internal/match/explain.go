package match

// Verdict says whether a rule applies to a request and, if not, why.
type Verdict struct {
	// Obstacle is what keeps the rule from applying; empty if it applies.
	Obstacle Obstacle
	// Name is the header or attribute of an obstacle that is one, as the rule
	// spells it.
	Name string
	// By is the position of the rule that displaced this one or ended the
	// evaluation, and -1 for every other obstacle.
	By int
}

// Applies reports whether the rule applies.
func (v *Verdict) Applies() bool { return v.Obstacle == "" }

// Explanation says how a request is matched.
type Explanation struct {
	// Readings are the readings of the path, the clean one first.
	Readings []string
	// Rules has a verdict on each rule: it applies if it applies in one of the
	// readings. Otherwise the obstacle is that of the clean reading.
	Rules []Verdict
	// Final means that an enforced final rule ends the evaluation of every reading.
	Final bool
}

// Explain says of each rule of a list, highest priority first, whether it applies to a
// request. It names the rules that [Matcher.Match] finds, and has nothing else in common
// with it: it looks at every rule and scans every list. So it costs what the rules cost,
// needs no preparation, and is what the matcher is tested against.
//
// The rules are such as [Compile] accepts. A rule has its own conditions as an obstacle
// before other rules are one, and of those the first in the order of evaluation.
func Explain(rules []Rule, req *Request) Explanation {
	x := Explanation{Readings: Readings(req.Path), Final: true}
	q := newQuestion(req)
	readings := readingsOf(nil, req.Path)
	for i := range readings.count {
		q.read(readings.at(i))
		verdicts, final := explainReading(rules, q)
		x.Final = x.Final && final
		if x.Rules == nil {
			x.Rules = verdicts
			continue
		}
		for i := range verdicts {
			if verdicts[i].Applies() {
				x.Rules[i] = verdicts[i]
			}
		}
	}
	return x
}

// explainReading is Explain for one reading of the path.
func explainReading(rules []Rule, q *question) (verdicts []Verdict, final bool) {
	verdicts = make([]Verdict, len(rules))
	enforced, shadow := map[string]int{}, map[string]int{} // which rule applies in each group
	end := -1
	for i := range rules {
		r, v := &rules[i], &verdicts[i]
		v.By = -1
		if v.Obstacle, v.Name = q.obstacle(r); !v.Applies() {
			continue
		}
		if r.Group != "" {
			first, taken := enforced[r.Group]
			if !taken && r.Shadow {
				first, taken = shadow[r.Group]
			}
			if taken {
				v.Obstacle, v.By = ObstacleGroup, first
				continue
			}
		}
		if end >= 0 {
			v.Obstacle, v.By = ObstacleEnded, end
			continue
		}
		switch {
		case r.Group == "":
		case r.Shadow:
			shadow[r.Group] = i
		default:
			enforced[r.Group] = i
		}
		if r.Final && !r.Shadow {
			end = i
		}
	}
	return verdicts, end >= 0
}
