package match

import "slices"

// Obstacle is what keeps a rule from applying to a request.
type Obstacle string

// The obstacles: conditions of the rule itself in the order in which they are looked
// at, those on texts before the API key, and then other rules.
const (
	ObstaclePath         Obstacle = "path"
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
	reached := make(map[int32]bool)
	for _, leaf := range m.appendLeaves(nil, q) {
		reached[leaf] = true
	}
	onPath := func(leaf int32) bool { return reached[leaf] }
	verdicts = make([]Verdict, len(m.rules))
	marked := make(map[int32]int) // the rule that left each mark of a group
	end := -1
	for i := range m.rules {
		r, v := &m.rules[i], &verdicts[i]
		v.By = -1
		if !slices.ContainsFunc(m.leaves[i], onPath) {
			v.Obstacle = ObstaclePath
		} else if r.when != nil {
			v.Obstacle, v.Name = r.when.obstacle(q)
		}
		if !v.Applies() {
			continue
		}
		by, displaced := marked[2*r.group]
		if !displaced && r.shadow {
			by, displaced = marked[mark(r)]
		}
		switch {
		case r.group != none && displaced:
			v.Obstacle, v.By = ObstacleGroup, by
		case end >= 0:
			v.Obstacle, v.By = ObstacleEnded, end
		default:
			marked[mark(r)] = i
			if r.final && !r.shadow {
				end = i
			}
		}
	}
	return verdicts, end >= 0
}
