package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// awkward are texts that YAML could take for something else.
var awkward = []string{
	"", " ", "a: b", "a\nb", "\na", "a\n", "a\r\nb", " x", "x ", "a  b", "- a", "-", "? a", "?", "<<", "0x10", "1_000", "0755", "1E5", "1e400", "12", "1.0", ".5", "+1", "~",
	"null", "yes", "no", "on", "y", "True", "TRUE", ".inf", ".nan", "é", "\u2028", "\u0085", "\x01", "\x7f", "😀", "a #b", "#", "a:", ":", "::", "|", "> x", "---", "--- a", "...",
	"a\tb", "\ta", "'", `"`, `a"b`, `a\b`, "{a}", "[x", "a,b", "!x", "%x", "@x", "`x", "*", "/api/**", "2001-01-01", "=", "\u00a0x", "\ufeffx", "12:30:45", "<b>&",
	"sha256:0a", "a/b:c", "a -b", "a - b", "/-", "x.y*@+-", "\u009b31m", "\u202e", "\U000e0001",
}

// TestYAMLIsReadAsTheSameAgain writes rule sets with awkward texts and random
// ones in every place that takes them.
func TestYAMLIsReadAsTheSameAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	texts := awkward
	const letters = "ab01 \t\n:-#'\"\\{}[],&*!|>%@`?=~/.é😀\u2028\x01"
	for range 300 {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			all := []rune(letters)
			b.WriteRune(all[random.IntN(len(all))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		set, err := fluxgate.NewRuleSet("s", fluxgate.Rule{
			ID: "a", Bands: []fluxgate.Band{{Capacity: 1, Refill: 1e9}},
			When: fluxgate.When{Attributes: map[string][]string{"plan": {"x" + text, text + "x"}}},
			Attributes: map[string]any{
				"text": text, "list": []any{text, []any{text, []any{}}, map[string]any{text: text, "z": map[string]any{}}}, "key": map[string]any{text: nil, "more": true},
				"number": json.Number("123456789012345678901234567890.5"), "large": json.Number("1e400"), "nested": []any{map[string]any{"a": []any{[]any{1, 2}}}},
			},
		})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		doc, err := documentOf(set)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := writeYAML(&out, doc); err != nil {
			t.Fatal(err)
		}
		again, err := filerules.Parse("again.yaml", []byte(out.String()))
		if err != nil {
			t.Errorf("%q: %v\n%s", text, err, out.String())
			continue
		}
		if diff := rules.Diff(set, again[0]); len(diff) > 0 {
			t.Errorf("%q: %+v\n%s", text, diff, out.String())
		}
	}
}

func TestYAMLReadsWell(t *testing.T) {
	var out strings.Builder
	value := map[string]any{"b": []any{map[string]any{"x": 1, "y": []int{}}, "plain text", "yes", []int{1, 2}}, "a": nil, "c": map[string]any{"d": true}}
	if err := writeYAML(&out, value); err != nil {
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
	if out.String() != want {
		t.Errorf("it writes\n%s", out.String())
	}
}
