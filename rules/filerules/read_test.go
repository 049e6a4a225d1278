package filerules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// one parses a file with one rule set.
func one(t testing.TB, name, content string) *rules.Set {
	t.Helper()
	sets, err := filerules.Parse(name, []byte(content))
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	if len(sets) != 1 {
		t.Fatalf("%d rule sets, want 1", len(sets))
	}
	return sets[0]
}

// everyField is a rule set with every field set.
const everyField = `{"id": "full", "costTables": {"usd": {
	"gpt-4.1": {"input": 2500000, "cachedInput": 1250000, "output": 1E7, "reasoning": 12000000, "maxOutputTokens": 4000},
	"*": {"input": 20000000, "cachedInput": 0, "output": 30000000}}}, "rules": [
	{"_id": "all", "ruleSetId": "full", "paths": ["/a/*", "/b/**"], "methods": ["GET", "POST"], "limitScope": "COMPOSITE",
	 "compositeKeyFields": ["ip", "header:X-Tenant", "attr:plan", "descriptor", "descriptor:a b"], "cost": "usd", "priority": -3, "group": "g", "action": "limit", "enabled": false,
	 "onLimitExceed": "WAIT_FOR_REFILL", "mode": "shadow", "onFailure": "closed", "onMissingIdentity": "refuse",
	 "when": {"hosts": ["api.example.com", "*.example.org"], "excludePaths": ["/a/health"], "headers": {"X-A": ["1", "2"], "X.B": "no"},
	          "descriptor": [{"key": "a b", "value": "x*", "except": ["xy", "x: z*"]}, {"key": "c", "value": "404"}, {"key": "d"}],
	          "attributes": {"tier": ["*"]}, "ips": ["10.0.0.0/8", "::1"], "users": ["null", "true", "~", "0755", "1e3", "a: b", "- c", "#d", "é\ud83d\ude00\u0007\/"],
	          "apiKeys": ["k", "sha256:0000000000000000000000000000000000000000000000000000000000000000"]},
	 "bands": [{"label": "x", "capacity": 5, "refillTokens": 2, "refill": "1500ms", "kind": "token-bucket"},
	           {"capacity": 1E3, "refillSeconds": 1.5}, {"capacity": 8000000, "windowSeconds": 31536000, "label": "year"},
	           {"kind": "quota", "capacity": 10000, "period": "month", "timezone": "Europe/Berlin"}, {"kind": "sliding-window", "capacity": 100, "refillSeconds": 60},
	           {"kind": "concurrency", "capacity": 20, "hold": "30s"}],
	 "attributes": {"n": 1.50, "big": 12345678901234567890123, "list": ["a", 1, true, null, {"b": -0}], "tree": {"b": {"c": []}}, "e": 1e400, "empty": ""},
	 "createdAt": "2024-01-02T03:04:05.006Z", "updatedAt": "2024-01-01T00:00:00+02:00"},
	{"id": "deny", "action": "deny", "priority": 9, "path": "/x", "method": "GET", "group": null}]}`

// The same rules are equal in every format.
func TestParse_Formats(t *testing.T) {
	want, err := rules.Parse([]byte(everyField))
	if err != nil {
		t.Fatal(err)
	}
	hand, err := os.ReadFile("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"JSON":                     everyField,
		"JSON in a YAML file":      everyField,
		"YAML written by hand":     string(hand),
		"YAML with CRLF and a BOM": "\ufeff" + strings.ReplaceAll(string(hand), "\n", "\r\n"),
		"one of several":           "ruleSets:\n  - " + strings.ReplaceAll(strings.TrimPrefix(string(hand), "---\n"), "\n", "\n    "),
		"between empty documents":  "---\n---\n# nothing\n" + string(hand) + "...\n---\n",
	} {
		file := "rules.yaml"
		if name == "JSON" {
			file = "rules.json"
		}
		if got := canonical(t, one(t, file, content)); got != canonical(t, want) {
			t.Errorf("%s reads as\n%s\nwant\n%s", name, got, canonical(t, want))
		}
	}
}

// YAML written by a converter is parsed. Numbers that the converter changes are
// left out.
func TestParse_ConvertedYAML(t *testing.T) {
	plain := strings.NewReplacer("1.50", "1.5", "1e400", "7", "12345678901234567890123", "8", `\u0007`, "", `"1e3", `, "", "-0}", "0}").Replace(everyField)
	want := canonical(t, one(t, "a.json", plain))
	var fields any
	if err := json.Unmarshal([]byte(want), &fields); err != nil {
		t.Fatal(err)
	}
	converted, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if got := canonical(t, one(t, "a.yaml", string(converted))); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

// A file may have several rule sets.
func TestParse_SeveralRuleSets(t *testing.T) {
	for name, content := range map[string]string{
		"a list":    "ruleSets:\n- id: a\n  rules: []\n- id: b\n  rules: []\n",
		"documents": "id: a\nrules: []\n---\nid: b\nrules: []\n",
		"both":      "ruleSets: [{id: a, rules: []}]\n---\nid: b\nrules: []\n",
	} {
		sets, err := filerules.Parse("x.yml", []byte(content))
		if err != nil || len(sets) != 2 || sets[0].ID() != "a" || sets[1].ID() != "b" {
			t.Errorf("%s: %v, %v", name, sets, err)
		}
	}
	if sets, err := filerules.Parse("x.yaml", []byte("ruleSets: []\n")); err != nil || len(sets) != 0 {
		t.Errorf("a list of none: %v, %v", sets, err)
	}
}

// Strings are kept exactly.
func TestParse_Strings(t *testing.T) {
	for content, want := range map[string]string{
		`{n: "a\tb"}`:               `{"n":"a\tb"}`,
		"{n: 'x\ty'}":               `{"n":"x\ty"}`,
		`{"n": "\u00e9\U0001f600"}`: `{"n":"é😀"}`,
		"{n: 'it''s: # [x'}":        `{"n":"it's: # [x"}`,
		"{n: a#b}":                  `{"n":"a#b"}`,
		"{n: a # b\n    }":          `{"n":"a"}`,
		"\n      n: |\n        a\tb:  c \n         d\n": `{"n":"a\tb:  c \n d\n"}`,
	} {
		if got := canonical(t, one(t, "x.yaml", rule("attributes: "+content))); !strings.Contains(got, `"attributes":`+want) {
			t.Errorf("%q is read as\n%s\nwant %s", content, got, want)
		}
	}
}

// rule is a rule set around the fields of one rule.
func rule(fields string) string {
	return "id: s\nrules:\n  - id: r\n    bands: [{capacity: 1, refill: 1s}]\n    " + fields + "\n"
}

// YAML that JSON cannot express is rejected.
func TestParse_BeyondJSON(t *testing.T) {
	for name, content := range map[string]string{
		"an octal number":          rule("priority: 0755"),
		"a hexadecimal number":     rule("priority: 0x10"),
		"a number with underlines": rule("attributes: {n: 1_000}"),
		"a number with a plus":     rule("priority: +1"),
		"infinity":                 rule("attributes: {n: .inf}"),
		"not a number":             rule("attributes: {n: .nan}"),
		"half a number":            rule("attributes: {n: .5}"),
		"an anchor":                rule("attributes: &a {n: 1}"),
		"an alias":                 rule("attributes: *a"),
		"a merge key":              rule("<<: {priority: 1}"),
		"a tag":                    rule("priority: !!int 1"),
		"a directive":              "%YAML 1.2\n---\n" + rule("priority: 1"),
		"a key twice":              rule("priority: 1\n    priority: 1"),
		"a key twice in quotes":    rule("priority: 1\n    \"pri\\u006frity\": 1"),
		"a number as an id":        "id: 1\nrules: []\n",
		"a list of rule sets":      "- id: a\n  rules: []\n",
		"a text":                   "rules\n",
		"nothing":                  "",
		"an id without rules":      "id: s\n",
		"rules that are null":      "id: s\nrules:\n",
		"rules without an id":      "rules: []\n",
		"another field":            "id: s\nrules: []\nversion: 1\n",
		"a field beside ruleSets":  "id: s\nruleSets: []\n",
		"ruleSets as an object":    "ruleSets: {id: s, rules: []}\n",
		"a control character":      rule("group: \"a\x00b\""),
		"another encoding":         "\xff\xfei\x00d\x00",
		"a missing comma":          "id: s\nrules:\n  - {id: r, path: /a method: GET, action: deny}\n",
		"an item out of its list":  rule("attributes:\n      list:\n        a\n        - b"),
		"a tab in a number":        rule("priority: 1\t2"),
		"a tab in a key":           rule("prio\trity: 1"),
		"a tab in a text":          rule("group: a\tb"),
		"a colon on its own":       rule("priority\n    : 1"),
		"a list with a colon":      rule("methods: [GET:, POST]"),
		"an old line end":          "id: s\rrules: []\r",
	} {
		sets, err := filerules.Parse("x.yaml", []byte(content))
		var problems *filerules.Error
		if !errors.As(err, &problems) || len(problems.Problems) == 0 {
			t.Errorf("%s is read as %v, %v", name, sets, err)
		}
	}
}

// Hostile files are rejected within bounded time.
func TestParse_HostileFiles_NoRace(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct{ name, file, content, says string }{
		{"brackets", "x.yaml", repeat("[", 900_000), "nested deeper"},
		{"brackets", "x.json", repeat("[", 900_000), "exceeded max depth"},
		{"braces", "x.yaml", repeat("{a: ", 1<<16), "nested deeper"},
		{"braces", "x.json", repeat(`{"a": `, 1<<16), "exceeded max depth"},
		{"dashes", "x.yaml", repeat("- ", 1<<16), "nested deeper"},
		{"keys in a line", "x.yaml", repeat("a: ", 1<<16), "a colon is not allowed here"},
		{"a staircase", "x.yaml", staircase(1_000), "nested deeper"},
		{"question marks", "x.yaml", repeat("? ", 1<<16), "nested deeper"},
		{"keys of one block", "x.yaml", "id: s\nrules: []\n" + repeat("a: b\n", 1<<16), `duplicate key "a"`},
		{"keys in brackets", "x.yaml", "[" + repeat("a: b\n", 1<<16), "a comma or the closing ]"},
		{"values left out", "x.yaml", "id: s\nrules:\n" + repeat("  - a:\n", 1<<16), "at most 10000"},
		{"items left out", "x.yaml", "id: s\nrules:\n" + repeat("  -\n", 1<<16), "at most 10000"},
		{"entries left out", "x.yaml", "id: s\nrules: [" + repeat("{a: },", 1<<16) + "]\n", "at most 10000"},
		{"values", "x.yaml", "[" + repeat("1,", 1<<20) + "1]", "can have at most 1000000 values"},
		{"values", "x.json", "[" + repeat("1,", 1<<20) + "1]", "can have at most 1000000 values"},
		{"documents", "x.yaml", repeat("---\nid: s\nrules: []\n", 1<<11), "is in x.yaml:2:5 already"},
		{"empty documents", "x.yaml", repeat("---\n", 1<<16), "has no rule set"},
		{"rules", "x.yaml", "id: s\nrules:\n" + repeat("  - {id: r, bands: []}\n", 10_001), "at most 10000"},
		{"unknown fields", "x.yaml", "id: s\nrules: [{id: r, bands: [], " + manyKeys(20_000) + "}]\n", "is not a known field"},
		{"aliases of aliases", "x.yaml", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "anchors are not supported"},
		{"one line of secrets", "x.yaml", "id: s\nrules: [" + repeat("{id: '', when: {apiKeys: ['']}}, ", 5_000) + "]\n", "must have 1 to 1024 bytes"},
	} {
		t.Run(c.name+" in "+c.file, func(t *testing.T) {
			start := time.Now()
			_, err := filerules.Parse(c.file, []byte(c.content))
			var problems *filerules.Error
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %.1000v, want one that says %q", err, c.says)
			}
			if len(problems.Problems) > 100 || len(err.Error()) > 1<<17 {
				t.Errorf("%d problems in %d bytes", len(problems.Problems), len(err.Error()))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// staircase returns a document of n levels, one line each.
func staircase(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\"a %d\": 1, ", i)
	}
	return b.String()
}

// Truncated JSON is an error. Truncated YAML may be valid, but a file that ends
// before its rules is an error.
func TestParse_Truncated_NoRace(t *testing.T) {
	for cut := range len(everyField) {
		if sets, err := filerules.Parse("x.json", []byte(everyField[:cut])); err == nil {
			t.Errorf("JSON cut after %d bytes is read as %v", cut, sets)
		}
	}
	short := "id: api\nrules:\n  - id: r\n"
	for cut := range len(short) {
		if sets, err := filerules.Parse("x.yaml", []byte(short[:cut])); err == nil {
			t.Errorf("YAML cut after %d bytes is read as %v", cut, sets)
		}
	}
}
