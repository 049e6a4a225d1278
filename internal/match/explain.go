package match

import "slices"

// Obstacle is what keeps a rule from applying to a request.
type Obstacle string

// The obstacles: conditions of the rule itself in the order in which they are looked
// at, those on texts before the API key, and then other rules.
const (
	ObstaclePath         Obstacle = "path"
	ObstacleExpired      Obstacle = "expired"
	ObstacleExcludedPath Obstacle = "excluded-path"
	ObstacleMethod       Obstacle = "method"
	ObstacleHost         Obstacle = "host"
	ObstacleHeader       Obstacle = "header"
	ObstacleAttribute    Obstacle = "attribute"
	ObstacleDescriptor   Obstacle = "descriptor"
	ObstacleIP           Obstacle = "ip"
	ObstacleAPIKey       Obstacle = "api-key"
	// ObstacleGroup means that another rule of the group came first.
	ObstacleGroup Obstacle = "group"
	// ObstacleEnded means that a final rule ended the evaluation.
	ObstacleEnded Obstacle = "ended"
)

// Verdict says whether a rule applies to a request and, if not, why.
type Verdict struct {
	// Obstacle is what keeps the rule from applying; empty if it applies.
	Obstacle Obstacle
	// Name is the header, the attribute or the key in the descriptor of an obstacle
	// that is one, as the rule spells it. A descriptor with entries that the rule does
	// not ask for has none.
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

// Explain reports for each rule whether it applies to a request. It names the rules that
// [Matcher.Match] finds, but looks at every rule, so it costs what the rule set costs.
//
// A rule has its own conditions as an obstacle before other rules are one, and of those
// the first in the order of evaluation.
func (m *Matcher) Explain(req *Request) Explanation {
	x := Explanation{Readings: Readings(req.Path), Final: true}
	q := query{req: req, host: plainHost(req.Host), ip: plainAddr(req.IP)}
	readings := readingsOf(nil, req.Path)
	for i := range readings.count {
		q.path = readings.at(i)
		q.folded = m.fold(q.path)
		x.add(m.explainReading(&q))
	}
	return x
}

// add takes the verdicts of one more reading into account.
func (x *Explanation) add(verdicts []Verdict, final bool) {
	x.Final = x.Final && final
	if x.Rules == nil {
		x.Rules = verdicts
		return
	}
	for i := range verdicts {
		if verdicts[i].Applies() {
			x.Rules[i] = verdicts[i]
		}
	}
}

// explainReading is Explain for one reading of the path.
func (m *Matcher) explainReading(q *query) (verdicts []Verdict, final bool) {
	applying, leaves := m.match(q, nil), m.appendLeaves(nil, q)
	onPath := func(leaf int32) bool { return slices.Contains(leaves, leaf) }
	verdicts = make([]Verdict, len(m.rules))
	for i := range m.rules {
		r, v := &m.rules[i], &verdicts[i]
		v.By = -1
		if _, applies := slices.BinarySearch(applying, int32(i)); applies {
			continue
		}
		if !slices.ContainsFunc(m.leaves[i], onPath) {
			v.Obstacle = ObstaclePath
		} else if r.when != nil {
			v.Obstacle, v.Name = r.when.obstacle(q)
		}
		if v.Obstacle != "" {
			continue
		}
		v.Obstacle, v.By = ObstacleEnded, int(applying[len(applying)-1])
		for _, by := range applying { // an enforced rule comes after the shadow rule of its group
			if other := &m.rules[by]; int(by) < i && r.group != none && other.group == r.group && (r.shadow || !other.shadow) {
				v.Obstacle, v.By = ObstacleGroup, int(by)
			}
		}
	}
	return verdicts, ends(m.rules, applying)
}
