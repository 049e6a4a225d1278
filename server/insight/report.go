package insight

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// The bounds of a report, of our own and of one that was read.
const (
	// MaxReport is the most bytes of a report.
	MaxReport = 16 << 10

	reportVersion    = 1
	recent           = 5 // steps that rates are of
	reportedCallers  = 20
	reportedRules    = 20
	reportedRuleSets = 8
	reportedNodes    = 32
	maxRevisions     = 50
	maxText          = 64
	maxError         = 200
)

// report is what a server says about itself in Redis. Other servers do not trust it.
// Times are ages: clocks of servers differ.
type report struct {
	Version int    `json:"v"`
	Name    string `json:"name"`
	Build   string `json:"build,omitempty"`
	Start   int64  `json:"start"` // in unix seconds, by its own clock
	At      int64  `json:"at"`    // in unix milliseconds
	// Understands is absent in reports of servers of an earlier version.
	Understands []string         `json:"understands,omitempty"`
	Draining    bool             `json:"draining,omitempty"`
	Status      string           `json:"status,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Revisions   map[string]int64 `json:"revisions,omitempty"`
	Redis       []reportedNode   `json:"redis,omitempty"`
	// Steps is how many steps are known. P50 and P99 have as many times to decide, in milliseconds, 0
	// without requests. Series have as many elements, or none if all are 0. The last one ends now.
	Steps    int              `json:"steps"`
	P50      []float64        `json:"p50,omitempty"`
	P99      []float64        `json:"p99,omitempty"`
	Total    reportedSeries   `json:"total"`
	RuleSets []reportedSet    `json:"sets,omitempty"`
	Recent50 float64          `json:"recent50,omitempty"`
	Recent99 float64          `json:"recent99,omitempty"`
	Rules    []reportedRule   `json:"rules,omitempty"`
	Limited  reportedCallerLs `json:"limited"`
	Allowed  reportedCallerLs `json:"allowed"`
}

type reportedSet struct {
	ID string `json:"id"`
	reportedSeries
}

// reportedSeries is the requests in each step by class.
type reportedSeries struct {
	Counts [classes][]uint32 `json:"n"`
}

// reportedRule is the requests of a rule in the recent seconds.
type reportedRule struct {
	RuleSet string          `json:"set"`
	Rule    string          `json:"rule"`
	Shadow  bool            `json:"s,omitempty"`
	Counts  [classes]uint64 `json:"n"`
}

func (r *reportedRule) sum() (n uint64) {
	for _, v := range r.Counts {
		n += v
	}
	return n
}

type reportedCallerLs struct {
	Age     int64            `json:"age"` // since when they are counted, in seconds
	Callers []reportedCaller `json:"callers,omitempty"`
}

// reportedCaller has no identity: that stays in the memory of the server that saw it.
type reportedCaller struct {
	Rule  int    `json:"r"` // index of the rule
	Key   string `json:"k"`
	Count uint64 `json:"c"`
}

type reportedNode struct {
	Node  string `json:"node"`
	Open  bool   `json:"open,omitempty"`
	Age   int64  `json:"age,omitempty"` // since when it is open, in seconds
	Error string `json:"error,omitempty"`
}

// encode returns the report as JSON of at most MaxReport bytes. What does not fit is left
// out: first the series of rule sets, then the callers, the rules and the revisions with
// the fewest requests, then the errors of nodes and the nodes.
func (r *report) encode() []byte {
	for {
		text, _ := json.Marshal(r) // numbers and strings: never fails
		if len(text) <= MaxReport {
			return text
		}
		switch {
		case len(r.RuleSets) > 1:
			r.RuleSets = r.RuleSets[:len(r.RuleSets)/2]
		case len(r.Limited.Callers)+len(r.Allowed.Callers) > 2:
			r.Limited.Callers = r.Limited.Callers[:len(r.Limited.Callers)/2]
			r.Allowed.Callers = r.Allowed.Callers[:len(r.Allowed.Callers)/2]
		case len(r.RuleSets)+len(r.Rules)+len(r.Revisions) > 0:
			r.RuleSets, r.Rules, r.Revisions = nil, nil, nil
			r.Limited.Callers, r.Allowed.Callers = nil, nil
		case slices.ContainsFunc(r.Redis, func(n reportedNode) bool { return n.Error != "" }):
			for i := range r.Redis {
				r.Redis[i].Error = ""
			}
		default:
			r.Redis = r.Redis[:len(r.Redis)/2]
		}
	}
}

var errReport = errors.New("not a valid report")

// parseReport reads the report of another server.
func parseReport(text []byte) (*report, error) {
	r := new(report)
	if len(text) > MaxReport {
		return nil, fmt.Errorf("%w: more than %d bytes", errReport, MaxReport)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errReport, err)
	}
	if r.Version != reportVersion {
		return nil, fmt.Errorf("%w: version %d", errReport, r.Version)
	}
	if what := r.check(); what != "" {
		return nil, fmt.Errorf("%w: %s", errReport, what)
	}
	r.clean()
	return r, nil
}

// check returns what of a report cannot be shown: names of any characters, times that JSON
// does not have, callers without a rule. Numbers may be wrong.
func (r *report) check() string {
	ids := slices.Clone(r.Understands)
	for id := range r.Revisions {
		ids = append(ids, id)
	}
	for i := range r.RuleSets {
		ids = append(ids, r.RuleSets[i].ID)
	}
	for i := range r.Rules {
		if ids = append(ids, r.Rules[i].RuleSet); r.Rules[i].Rule != fluxgate.RequestLimit {
			ids = append(ids, r.Rules[i].Rule)
		}
	}
	toDecide := slices.Concat(r.P50, r.P99, []float64{r.Recent50, r.Recent99})
	times := []int64{r.Start, r.At / 1_000, r.Limited.Age, r.Allowed.Age} // in seconds
	for i := range r.Redis {
		times = append(times, r.Redis[i].Age)
	}
	switch {
	case slices.ContainsFunc(ids, func(id string) bool { return !rules.ValidID(id) }):
		return "a name"
	case slices.Min(times) < 0 || slices.Max(times) > math.MaxUint32 || slices.Max(toDecide) > 1e9:
		return "a time"
	case slices.ContainsFunc(slices.Concat(r.Limited.Callers, r.Allowed.Callers), func(c reportedCaller) bool {
		return c.Rule < 0 || c.Rule >= len(r.Rules) ||
			len(c.Key) != fluxgate.ShownKeyLength || strings.Trim(c.Key, "0123456789abcdef") != ""
	}):
		return "a caller"
	}
	return ""
}

// clean makes the texts of a report safe to show.
func (r *report) clean() {
	r.Name, r.Build = printable.Line(r.Name, maxText), printable.Line(r.Build, maxText)
	r.Status, r.Reason = printable.Line(r.Status, maxText), printable.Line(r.Reason, maxError)
	for i := range r.Redis {
		n := &r.Redis[i]
		n.Node, n.Error = printable.Line(n.Node, maxText), printable.Line(n.Error, maxError)
	}
}

// at returns the requests of a step, counted from the last, which is 0.
func (s *reportedSeries) at(o class, ago int) uint32 {
	if n := len(s.Counts[o]); ago < n {
		return s.Counts[o][n-1-ago]
	}
	return 0
}

// rates returns the requests in a second over the recent steps.
func (r *report) rates(of ...*reportedSeries) admin.Rates {
	var sum [classes]uint64
	known := min(r.Steps, recent)
	for _, s := range of {
		for o := range sum {
			for ago := range known {
				sum[o] += uint64(s.at(class(o), ago))
			}
		}
	}
	return ratesOf(&sum, max(1, known))
}

// ratesOf returns the requests in a second over some steps.
func ratesOf(n *[classes]uint64, known int) (rates admin.Rates) {
	for o, rate := range classesOf(&rates) {
		*rate = math.Round(10*float64(n[o])/float64(known*step)) / 10
	}
	return rates
}

// classesOf returns the rates in the order of the classes.
func classesOf(r *admin.Rates) [classes]*float64 {
	return [classes]*float64{&r.Allowed, &r.Limited, &r.Denied, &r.Degraded, &r.Waiting, &r.Shadow}
}

// visible returns the series that a caller may see, of one rule set if it is named.
func (r *report) visible(view *View, ruleSet string) (of []*reportedSeries) {
	if view.All && ruleSet == "" {
		return []*reportedSeries{&r.Total}
	}
	for i := range r.RuleSets {
		if s := &r.RuleSets[i]; (ruleSet == "" || s.ID == ruleSet) && view.RuleSet(s.ID) {
			of = append(of, &s.reportedSeries)
		}
	}
	return of
}

// server returns the server as the admin API shows it.
func (r *report) server(id string, view *View, now time.Time) admin.Server {
	s := admin.Server{
		ID: id, Name: r.Name, Version: r.Build, StartedAt: time.Unix(r.Start, 0).UTC(), ReportedAt: time.UnixMilli(r.At).UTC(),
		Draining: r.Draining, Status: r.Status, Revisions: map[string]int64{}, Redis: []admin.RedisNode{},
		Understands: append([]string{}, r.Understands...),
		Rates:       r.rates(r.visible(view, "")...), P50Ms: knownMs(r.Recent50), P99Ms: knownMs(r.Recent99),
	}
	for ruleSet, revision := range r.Revisions {
		if view.RuleSet(ruleSet) {
			s.Revisions[ruleSet] = revision
		}
	}
	if !view.All {
		return s
	}
	s.Reason = r.Reason
	for _, n := range r.Redis {
		node := admin.RedisNode{Node: n.Node, Open: n.Open, Error: n.Error}
		if n.Open {
			since := now.Add(-time.Duration(n.Age) * time.Second).UTC().Truncate(time.Second)
			node.Since = &since
		}
		s.Redis = append(s.Redis, node)
	}
	return s
}

// busiest orders rules by what an operator looks for first: those that reject most, by a limit
// or otherwise.
func busiest(a, b reportedRule) int {
	rejected := func(r *reportedRule) uint64 { return r.Counts[limited] + r.Counts[denied] }
	return cmp.Or(cmp.Compare(rejected(&b), rejected(&a)), cmp.Compare(b.Counts[shadow], a.Counts[shadow]),
		cmp.Compare(b.Counts[allowed], a.Counts[allowed]), cmp.Compare(a.RuleSet, b.RuleSet), cmp.Compare(a.Rule, b.Rule))
}
