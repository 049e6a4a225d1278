package insight

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
)

// largest is a report that has as much as possible of everything.
func largest() *report {
	name := strings.Repeat("x", 60)
	r := &report{Version: reportVersion, Name: name, Build: name, Status: "degraded", Reason: strings.Repeat("x", maxError), Revisions: map[string]int64{}}
	r.Steps = steps
	fill := func(s *reportedSeries) {
		for o := range s.Counts {
			for range steps {
				s.Counts[o] = append(s.Counts[o], 4_000_000_000)
			}
		}
	}
	fill(&r.Total)
	for i := range reportedRuleSets {
		r.RuleSets = append(r.RuleSets, reportedSet{ID: fmt.Sprint(name, i)})
		fill(&r.RuleSets[i].reportedSeries)
	}
	for i := range reportedRules + 2*reportedCallers {
		r.Rules = append(r.Rules, reportedRule{RuleSet: name, Rule: fmt.Sprint(name, i), Counts: [classes]uint64{1 << 40}})
	}
	for i := range reportedCallers {
		c := reportedCaller{Rule: i, Key: fmt.Sprintf("%048x", i), Count: 1 << 40}
		r.Limited.Callers, r.Allowed.Callers = append(r.Limited.Callers, c), append(r.Allowed.Callers, c)
	}
	for i := range maxRevisions {
		r.Revisions[fmt.Sprint(name, i)] = 1 << 50
	}
	for range steps {
		r.P50, r.P99 = append(r.P50, 1234.567), append(r.P99, 1234.567)
	}
	for range reportedNodes {
		r.Redis = append(r.Redis, reportedNode{Node: name, Open: true, Age: 1 << 30, Error: strings.Repeat("x", maxError)})
	}
	return r
}

// The largest report fits, and others read it.
func TestReport_Largest(t *testing.T) {
	text := largest().encode()
	if len(text) > MaxReport || len(text) < MaxReport/4 {
		t.Errorf("%d bytes", len(text))
	}
	r, err := parseReport(text)
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.at(allowed, steps-1) != 4_000_000_000 {
		t.Error("the series of the server is missing")
	}
}

// Errors of Redis with any characters do not make a report too long.
func TestReport_LongErrors(t *testing.T) {
	for name, text := range map[string]string{"escaped": "<", "wide": "\u4e16"} {
		r := largest()
		r.Reason = strings.Repeat(text, maxError)
		for i := range r.Redis {
			r.Redis[i].Node, r.Redis[i].Error = strings.Repeat(text, maxText), strings.Repeat(text, maxError)
		}
		if got, err := parseReport(r.encode()); err != nil || len(got.Redis) == 0 || !got.Redis[0].Open {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A report that cannot be shown is refused.
func TestReport_Invalid(t *testing.T) {
	valid := func() *report {
		return &report{Version: reportVersion, Steps: 1, Rules: []reportedRule{{RuleSet: "a", Rule: "b"}}}
	}
	for name, change := range map[string]func(*report){
		"another version":        func(r *report) { r.Version = 2 },
		"the name of a rule set": func(r *report) { r.RuleSets = []reportedSet{{ID: "a b"}} },
		"the name of a rule":     func(r *report) { r.Rules[0].Rule = "<script>" },
		"the name of a revision": func(r *report) { r.Revisions = map[string]int64{"a b": 1} },
		"a time":                 func(r *report) { r.At = -1_000 },
		"a late time":            func(r *report) { r.Start = 1 << 40 },
		"a long time to decide":  func(r *report) { r.P99 = []float64{1e306} },
		"an age":                 func(r *report) { r.Limited.Age = -1 },
		"the age of a node":      func(r *report) { r.Redis = []reportedNode{{Age: -1}} },
		"a rule of a caller":     func(r *report) { r.Allowed.Callers = []reportedCaller{{Rule: 1, Key: strings.Repeat("a", 48)}} },
		"a negative rule":        func(r *report) { r.Allowed.Callers = []reportedCaller{{Rule: -1, Key: strings.Repeat("a", 48)}} },
		"a key":                  func(r *report) { r.Allowed.Callers = []reportedCaller{{Key: strings.Repeat("z", 48)}} },
		"the length of a key":    func(r *report) { r.Allowed.Callers = []reportedCaller{{Key: "aa"}} },
	} {
		r := valid()
		change(r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseReport(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	text, _ := json.Marshal(valid())
	if _, err := parseReport(text); err != nil {
		t.Errorf("a valid report is refused: %v", err)
	}
	if _, err := parseReport([]byte(strings.Repeat(" ", MaxReport) + "{}")); err == nil {
		t.Error("a long report is accepted")
	}
}

// Text of other servers cannot control a terminal.
func TestReport_Printable(t *testing.T) {
	r := &report{Version: reportVersion, Name: "a\x1b[2J" + strings.Repeat("b", 100), Redis: []reportedNode{{Error: "x\ny\u202e"}}}
	text, _ := json.Marshal(r)
	got, err := parseReport(text)
	if err != nil || strings.ContainsAny(got.Name+got.Redis[0].Error, "\x1b\n\u202e") || len([]rune(got.Name)) > maxText+1 {
		t.Errorf("%q %q %v", got.Name, got.Redis[0].Error, err)
	}
}

// Whatever a report says, it is refused or can be shown.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"v":1,"steps":2,"total":{"n":[[1,2]]},"rules":[{"set":"a","rule":"b","n":[1]}],"limited":{"age":3,"callers":[{"r":0,"k":"` + strings.Repeat("a", 48) + `","c":1}]}}`))
	f.Add(largest().encode())
	view := &View{All: true, RuleSet: func(string) bool { return true }}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseReport(text)
		if err != nil {
			return
		}
		s := r.server("id", view, time.Now())
		r.rates(r.visible(view, "")...)
		for _, c := range r.Limited.Callers {
			_ = r.Rules[c.Rule].rates()
		}
		var live admin.Live
		for ago := steps - 1; ago >= 0; ago-- {
			appendStep(&live.Series, []serverSeries{{r, r.visible(view, "")}}, ago)
		}
		if _, err := json.Marshal([]any{s, live}); err != nil {
			t.Fatal(err)
		}
	})
}

// A server that was suspended has no requests in the time that it missed, whatever it had
// there before.
func TestHistory_Suspended(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		h, exact := new(history), map[int64]uint32{}
		last := int64(1_000_000)
		for range 300 {
			n := uint32(random.IntN(5))
			for range n {
				h.add(limited)
			}
			next := last + random.Int64N(3)
			if random.IntN(50) == 0 {
				next += random.Int64N(2 * steps)
			}
			h.tick(last, next)
			exact[next] += n
			last = next
		}
		for s := last - steps + 1; s <= last; s++ {
			if got := h.steps[s%steps][limited]; got != exact[s] {
				t.Fatalf("%d requests %d steps ago, want %d", got, last-s, exact[s])
			}
		}
	}
}

// Rules that reject are first, whether by a limit or as rules that deny.
func TestBusiest(t *testing.T) {
	rules := []reportedRule{
		{Rule: "allows", Counts: [classes]uint64{allowed: 900}}, {Rule: "shadow", Counts: [classes]uint64{allowed: 500, shadow: 500}},
		{Rule: "limits", Counts: [classes]uint64{limited: 5}}, {Rule: "denies", Counts: [classes]uint64{denied: 50}},
		{Rule: "both", Counts: [classes]uint64{limited: 4, denied: 4}},
	}
	slices.SortFunc(rules, busiest)
	var order []string
	for _, r := range rules {
		order = append(order, r.Rule)
	}
	if got, want := strings.Join(order, " "), "denies both limits shadow allows"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
}
