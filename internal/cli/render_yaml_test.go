package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// awkward are texts that YAML could take for something else.
var awkward = []string{
	"", " ", "a: b", "a\nb", "\na", "a\n", "a\r\nb", " x", "x ", "a  b", "- a", "-", "? a", "?", "<<", "0x10", "1_000", "0755", "1E5", "1e400", "12", "1.0", ".5", "+1", "~",
	"null", "yes", "no", "on", "y", "True", "TRUE", ".inf", ".nan", "é", "\u2028", "\u0085", "\x01", "\x7f", "😀", "a #b", "#", "a:", ":", "::", "|", "> x", "---", "--- a", "...",
	"a\tb", "\ta", "'", `"`, `a"b`, `a\b`, "{a}", "[x", "a,b", "!x", "%x", "@x", "`x", "*", "/api/**", "2001-01-01", "=", "\u00a0x", "\ufeffx", "12:30:45", "<b>&",
	"1h", "100ms", "0d", "07s", "1e5s", "1hh", "sha256:0a", "a/b:c", "a -b", "a - b", "/-", "x.y*@+-", "\u009b31m", "\u202e", "\U000e0001",
}

// Rule sets with awkward and random strings in every place are read as the same
// again.
func TestYAMLText_RoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	texts := awkward
	const letters = "ab01 \t\n:-#'\"\\{}[],&*!|>%@`?=~/.é😀\u2028\x01"
	texts = append(texts, strings.Repeat("é\x01", 340)) // more than 1024 characters as a key
	for range 300 {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			all := []rune(letters)
			b.WriteRune(all[random.IntN(len(all))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		set, err := rules.NewSet("s", rules.Rule{
			ID: "a", Bands: []rules.Band{{Capacity: 1, Refill: 1e9}},
			When: rules.When{Attributes: map[string][]string{"plan": {"x" + text, text + "x"}}},
			Attributes: map[string]any{
				"text": text, "list": []any{text, []any{text, []any{}}, map[string]any{text: text, "z": map[string]any{}}}, "key": map[string]any{text: nil, "more": true},
				"number": json.Number("123456789012345678901234567890.5"), "large": json.Number("1e400"), "nested": []any{map[string]any{"a": []any{[]any{1, 2}}}},
			},
		})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if priced, err := set.WithCostTables(rules.CostTables{"usd": {text: {Input: 1, Output: 2}, "*": {}}}); err == nil { // a valid name
			set = priced
		}
		doc, err := newRuleSetDocument(set)
		if err != nil {
			t.Fatal(err)
		}
		out, err := yamlText(doc)
		if err != nil {
			t.Fatal(err)
		}
		again, err := filerules.Parse("again.yaml", []byte(out))
		if err != nil {
			t.Errorf("%q: %v\n%s", text, err, out)
			continue
		}
		if diff := rules.Diff(set, again[0]); len(diff) > 0 {
			t.Errorf("%q: %+v\n%s", text, diff, out)
		}
	}
}

// YAML is written in blocks, with quotes only where they are needed.
func TestYAMLText_Layout(t *testing.T) {
	value := map[string]any{"b": []any{map[string]any{"x": 1, "y": []int{}}, "plain text", "yes", []int{1, 2}}, "a": nil, "c": map[string]any{"d": true}}
	out, err := yamlText(value)
	if err != nil {
		t.Fatal(err)
	}
	const want = `a: null
b:
  - x: 1
    "y": []
  - plain text
  - "yes"
  - - 1
    - 2
c:
  d: true
`
	if out != want {
		t.Errorf("it writes\n%s", out)
	}
}

// anyRule makes up a rule of everything that documents may leave out.
func anyRule(random *rand.Rand, id string) rules.Rule {
	one := func(n int) bool { return random.IntN(n) == 0 }
	r := rules.Rule{ID: id, Disabled: one(3), Priority: random.IntN(3) - 1, RuleSetID: "s", CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(2, 0)}
	r.Scope = []rules.Scope{"", rules.ScopeGlobal, rules.ScopeUser, "PER_IP", rules.ScopeComposite}[random.IntN(5)]
	if r.Scope == rules.ScopeComposite {
		r.KeyFields = []string{"ip", "path"}
	}
	r.Cost = []string{"", rules.MeasureRequests, rules.MeasureTokens, "usd"}[random.IntN(4)]
	r.Mode = []rules.Mode{"", rules.ModeEnforce, rules.ModeShadow}[random.IntN(3)]
	r.OnMissingIdentity = []rules.OnMissingIdentity{"", rules.MissingIP, rules.MissingRefuse}[random.IntN(3)]
	if one(4) {
		r.Action, r.Mode = []rules.Action{rules.ActionAllow, rules.ActionDeny}[random.IntN(2)], ""
		return r
	}
	if one(2) {
		r.Action = rules.ActionLimit
	}
	units := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	for i := range 1 + random.IntN(3) {
		b := rules.Band{Label: fmt.Sprint("band-", i), Capacity: 1 + random.Int64N(5), Refill: time.Duration(1+random.IntN(100)) * units[random.IntN(len(units))]}
		if one(2) {
			b.RefillTokens = 1 + random.Int64N(5)
		}
		if one(3) {
			b.Kind = rules.TokenBucket
		}
		r.Bands = append(r.Bands, b)
	}
	return r
}

// Documents leave out defaults and are read as the same rules again.
func TestRuleSetDocument_Defaults(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 500 {
		set, err := rules.NewSet("s", anyRule(random, "a"), anyRule(random, "b"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := newRuleSetDocument(set)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{asYAML, asJSON} {
			var out strings.Builder
			output := outputFlag{formatFlag{format: format}}
			if err := output.write(&out, doc, nil); err != nil {
				t.Fatal(err)
			}
			again, err := filerules.Parse("again."+format, []byte(out.String()))
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if diff := rules.Diff(set, again[0]); len(diff) > 0 {
				t.Fatalf("%+v\n%s", diff, out.String())
			}
			for _, without := range []string{"GLOBAL", "enabled: true", "enabled\": true", "priority: 0", "priority\": 0", "refillSeconds", "createdAt", "ruleSetId", "requests"} {
				if strings.Contains(out.String(), without) {
					t.Fatalf("it says %s:\n%s", without, out.String())
				}
			}
		}
	}
}

// documentOf is how a band is written.
func documentOf(t *testing.T, band rules.Band) rules.BandDocument {
	t.Helper()
	set, err := rules.NewSet("s", rules.Rule{ID: "a", Bands: []rules.Band{band}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := newRuleSetDocument(set)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Rules[0].Bands[0]
}

// Each kind of band is written with its own fields.
func TestRuleSetDocument_Kinds(t *testing.T) {
	for _, c := range []struct {
		want rules.BandDocument
		band rules.Band
	}{
		{
			rules.BandDocument{Kind: rules.Quota, Capacity: 5, Period: "month", Timezone: "Asia/Tokyo", WarnAt: []string{"80%"}},
			rules.Band{Kind: rules.Quota, Capacity: 5, Period: "month", Timezone: "Asia/Tokyo", WarnAt: rules.Percents{80}},
		},
		{rules.BandDocument{Kind: rules.SlidingWindow, Capacity: 5, Period: "90s"}, rules.Band{Kind: rules.SlidingWindow, Capacity: 5, Refill: 90 * time.Second}},
		{rules.BandDocument{Kind: rules.Concurrency, Capacity: 5, Hold: "90s"}, rules.Band{Kind: rules.Concurrency, Capacity: 5, Hold: 90 * time.Second}},
	} {
		if got := documentOf(t, c.band); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// Periods are written in their largest unit.
func TestRuleSetDocument_Periods(t *testing.T) {
	for want, period := range map[string]time.Duration{
		"100ms": 100 * time.Millisecond, "1s": time.Second, "90s": 90 * time.Second, "1h": time.Hour, "90m": 90 * time.Minute, "1d": 24 * time.Hour, "30d": 720 * time.Hour,
	} {
		b := documentOf(t, rules.Band{Capacity: 5, RefillTokens: 5, Refill: period})
		if b.Refill != want || b.RefillTokens != 0 {
			t.Errorf("%v is %+v", period, b)
		}
	}
}
