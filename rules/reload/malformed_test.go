package reload_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// malformed are rule sets that must be rejected, each with the location that the
// error must name. $R is a valid rule id and bands, $B valid bands, so that only
// the tested part is wrong.
var malformed = []struct{ name, document, place string }{
	{"nothing", ``, "has no rule set"},
	{"null", `null`, ""},
	{"a text", `hello`, ""},
	{"a list", `[1, 2]`, ""},
	{"a number", `5`, ""},
	{"half a document", `{id: set, rules: [{id: r, bands: [`, ":1:"},
	{"a tab", "id: set\nrules:\n\t- id: r", ":3:"},
	{"blank id", `{id: "", rules: [{$R}]}`, "id"},
	{"null id", `{id: null, rules: [{$R}]}`, "id"},
	{"no id", `{rules: [{$R}]}`, "id"},
	{"number as id", `{id: 5, rules: [{$R}]}`, "id"},
	{"id with spaces", `{id: my set, rules: [{$R}]}`, "id"},
	{"id too long", `{id: ` + strings.Repeat("x", 65) + `, rules: [{$R}]}`, "id"},
	{"unknown field", `{id: set, rule: [{$R}]}`, "rule"},
	{"rules as object", `{id: set, rules: {$R}}`, "rules"},
	{"rules as text", `{id: set, rules: all}`, "rules"},
	{"a rule that is null", `{id: set, rules: [null]}`, "rules[0]"},
	{"a rule that is a text", `{id: set, rules: [r]}`, "rules[0]"},
	{"a rule that is a list", `{id: set, rules: [[r]]}`, "rules[0]"},
	{"the same field twice", `{id: set, id: set, rules: [{$R}]}`, ":1:"},
	{"blank rule id", `{id: set, rules: [{id: "", $B}]}`, "rules[0].id"},
	{"null rule id", `{id: set, rules: [{id: null, $B}]}`, "rules[0].id"},
	{"no rule id", `{id: set, rules: [{$B}]}`, "rules[0].id"},
	{"rule id with a slash", `{id: set, rules: [{id: a/b, $B}]}`, "rules[0].id"},
	{"duplicate rule ids", `{id: set, rules: [{$R}, {$R}]}`, "rules[1].id"},
	{"another rule set's", `{id: set, rules: [{$R, ruleSetId: other}]}`, "rules[0].ruleSetId"},
	{"a rule's unknown field", `{id: set, rules: [{$R, colour: red}]}`, "rules[0].colour"},
	{"bands missing", `{id: set, rules: [{id: r}]}`, "rules[0].bands"},
	{"bands null", `{id: set, rules: [{id: r, bands: null}]}`, "rules[0].bands"},
	{"bands empty", `{id: set, rules: [{id: r, bands: []}]}`, "rules[0].bands"},
	{"bands as number", `{id: set, rules: [{id: r, bands: 5}]}`, "rules[0].bands"},
	{"seventeen bands", `{id: set, rules: [{id: r, bands: [` + strings.Repeat(`{capacity: 1, refill: 1s},`, 17) + `]}]}`, "rules[0].bands"},
	{"a band that is null", `{id: set, rules: [{id: r, bands: [null]}]}`, "rules[0].bands[0]"},
	{"capacity missing", `{id: set, rules: [{id: r, bands: [{refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity null", `{id: set, rules: [{id: r, bands: [{capacity: null, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity zero", `{id: set, rules: [{id: r, bands: [{capacity: 0, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity negative", `{id: set, rules: [{id: r, bands: [{capacity: -5, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity a fraction", `{id: set, rules: [{id: r, bands: [{capacity: 1.5, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity NaN", `{id: set, rules: [{id: r, bands: [{capacity: .nan, refill: 1s}]}]}`, ":1:46:"},
	{"capacity infinite", `{id: set, rules: [{id: r, bands: [{capacity: .inf, refill: 1s}]}]}`, ":1:46:"},
	{"capacity huge", `{id: set, rules: [{id: r, bands: [{capacity: 9223372036854775807, refill: 1s}]}]}`, "rules[0].bands[0]"},
	{"capacity beyond 64 bits", `{id: set, rules: [{id: r, bands: [{capacity: 99999999999999999999, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity with exponent", `{id: set, rules: [{id: r, bands: [{capacity: 1e300, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity as text", `{id: set, rules: [{id: r, bands: [{capacity: "10", refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"capacity as truth", `{id: set, rules: [{id: r, bands: [{capacity: true, refill: 1s}]}]}`, "rules[0].bands[0].capacity"},
	{"no period", `{id: set, rules: [{id: r, bands: [{capacity: 5}]}]}`, "rules[0].bands[0].refill"},
	{"period zero", `{id: set, rules: [{id: r, bands: [{capacity: 5, refillSeconds: 0}]}]}`, "rules[0].bands[0].refillSeconds"},
	{"period negative", `{id: set, rules: [{id: r, bands: [{capacity: 5, refillSeconds: -1}]}]}`, "rules[0].bands[0].refillSeconds"},
	{"period in words", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: soon}]}]}`, "rules[0].bands[0].refill"},
	{"period as number", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 60}]}]}`, "rules[0].bands[0].refill"},
	{"period of two years", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 732d}]}]}`, "rules[0].bands[0]"},
	{"period of a nanosecond", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1ns}]}]}`, "rules[0].bands[0]"},
	{"two periods", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1s, refillSeconds: 2}]}]}`, "rules[0].bands[0].refillSeconds"},
	{"refill tokens zero", `{id: set, rules: [{id: r, bands: [{capacity: 5, refillTokens: 0, refill: 1s}]}]}`, "rules[0].bands[0].refillTokens"},
	{"refill tokens negative", `{id: set, rules: [{id: r, bands: [{capacity: 5, refillTokens: -2, refill: 1s}]}]}`, "rules[0].bands[0].refillTokens"},
	{"window with other tokens", `{id: set, rules: [{id: r, bands: [{capacity: 5, refillTokens: 2, windowSeconds: 1}]}]}`, "rules[0].bands[0].refillTokens"},
	{"unknown kind", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1s, kind: leaky-bucket}]}]}`, "rules[0].bands[0].kind"},
	{"label with a colon", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1s, label: "a:b"}]}]}`, "rules[0].bands[0].label"},
	{"colliding labels", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1s, label: a}, {capacity: 6, refill: 1s, label: a}]}]}`, "rules[0].bands[1].label"},
	{"a band's unknown field", `{id: set, rules: [{id: r, bands: [{capacity: 5, refill: 1s, limit: 9}]}]}`, "rules[0].bands[0].limit"},
	{"unknown scope", `{id: set, rules: [{$R, limitScope: PLANET}]}`, "rules[0].limitScope"},
	{"scope as number", `{id: set, rules: [{$R, limitScope: 3}]}`, "rules[0].limitScope"},
	{"composite without fields", `{id: set, rules: [{$R, limitScope: COMPOSITE}]}`, "rules[0].compositeKeyFields"},
	{"unknown key field", `{id: set, rules: [{$R, limitScope: COMPOSITE, compositeKeyFields: [shoe-size]}]}`, "rules[0].compositeKeyFields[0]"},
	{"null key field", `{id: set, rules: [{$R, limitScope: COMPOSITE, compositeKeyFields: [null]}]}`, "rules[0].compositeKeyFields[0]"},
	{"key fields without composite", `{id: set, rules: [{$R, compositeKeyFields: [ip]}]}`, "rules[0].compositeKeyFields"},
	{"custom by two", `{id: set, rules: [{$R, limitScope: CUSTOM, compositeKeyFields: ["attr:a", "attr:b"]}]}`, "rules[0].compositeKeyFields"},
	{"pattern without slash", `{id: set, rules: [{$R, path: api}]}`, "rules[0].paths[0]"},
	{"pattern with many **", `{id: set, rules: [{$R, path: /**/a/**/b/**/c/**/d/**/e}]}`, "rules[0].paths[0]"},
	{"path and paths", `{id: set, rules: [{$R, path: /a, paths: [/b]}]}`, "rules[0].path"},
	{"path as number", `{id: set, rules: [{$R, path: 5}]}`, "rules[0].path"},
	{"null in paths", `{id: set, rules: [{$R, paths: [null]}]}`, "rules[0].paths[0]"},
	{"a method that is none", `{id: set, rules: [{$R, method: "GET POST"}]}`, "rules[0].methods[0]"},
	{"priority as text", `{id: set, rules: [{$R, priority: high}]}`, "rules[0].priority"},
	{"priority a fraction", `{id: set, rules: [{$R, priority: 0.5}]}`, "rules[0].priority"},
	{"enabled as text", `{id: set, rules: [{$R, enabled: "yes"}]}`, "rules[0].enabled"},
	{"unknown action", `{id: set, rules: [{$R, action: drop}]}`, "rules[0].action"},
	{"unknown mode", `{id: set, rules: [{$R, mode: dry}]}`, "rules[0].mode"},
	{"unknown policy", `{id: set, rules: [{$R, onLimitExceed: SLEEP}]}`, "rules[0].onLimitExceed"},
	{"unknown failure", `{id: set, rules: [{$R, onFailure: panic}]}`, "rules[0].onFailure"},
	{"unknown treatment", `{id: set, rules: [{$R, onMissingIdentity: guess}]}`, "rules[0].onMissingIdentity"},
	{"when as text", `{id: set, rules: [{$R, when: always}]}`, "rules[0].when"},
	{"unknown condition", `{id: set, rules: [{$R, when: {moon: full}}]}`, "rules[0].when.moon"},
	{"a network that is none", `{id: set, rules: [{$R, when: {ips: [10.0.0.0/99]}}]}`, "rules[0].when.ips[0]"},
	{"a host with a port", `{id: set, rules: [{$R, when: {hosts: ["a.example:80"]}}]}`, "rules[0].when.hosts[0]"},
	{"a header without values", `{id: set, rules: [{$R, when: {headers: {X-Plan: []}}}]}`, `rules[0].when.headers.X-Plan`},
	{"a header that is none", `{id: set, rules: [{$R, when: {headers: {"X Plan": [a]}}}]}`, `rules[0].when.headers["X Plan"]`},
	{"half a digest", `{id: set, rules: [{$R, when: {apiKeys: ["sha256:abcd"]}}]}`, "rules[0].when.apiKeys[0]"},
	{"a blank user", `{id: set, rules: [{$R, when: {users: [""]}}]}`, "rules[0].when.users[0]"},
	{"a star inside a value", `{id: set, rules: [{$R, when: {descriptor: [{key: a}, {key: b, value: "c*d"}]}}]}`, "rules[0].when.descriptor[1].value"},
	{"a descriptor as object", `{id: set, rules: [{$R, when: {descriptor: {a: b}}}]}`, "rules[0].when.descriptor"},
	{"a moment that is none", `{id: set, rules: [{$R, createdAt: yesterday}]}`, "rules[0].createdAt"},
	{"attributes as list", `{id: set, rules: [{$R, attributes: [1]}]}`, "rules[0].attributes"},
}

// Malformed rules are rejected, and the last good ones stay in effect. The test
// edits a file from valid to invalid and back for every case.
func TestLoad_MalformedRules_NoRace(t *testing.T) {
	if len(malformed) < 60 {
		t.Fatalf("only %d documents", len(malformed))
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		text = strings.ReplaceAll(text, "$R", "id: r, $B")
		text = strings.ReplaceAll(text, "$B", "bands: [{capacity: 5, refill: 1s}]")
		// Renamed, because the watcher may read meanwhile.
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	good := func(capacity int) string {
		return fmt.Sprintf("id: set\nrules: [{id: good, bands: [{capacity: %d, refill: 1h}]}]", capacity)
	}
	write(good(1_000))
	source, err := filerules.Open(file, filerules.Config{Settle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never})
	engine, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("set"))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			write(good(1_000 + i))
			if err := r.Reload(t.Context()); err != nil {
				t.Fatalf("a good rule set was refused: %v", err)
			}
			revision := status(t, r, "set").Revision
			write(c.document)
			if err := r.Reload(t.Context()); err == nil {
				t.Fatal("it was accepted")
			}
			s := status(t, r, "set")
			if s.Err == nil || s.Revision != revision {
				t.Fatalf("status %+v", s)
			}
			if text := s.Err.Error(); !strings.Contains(text, c.place) || !strings.Contains(text, "rules.yaml") {
				t.Errorf("the error does not name %s:\n%v", c.place, text)
			}
			d, err := engine.Check(t.Context(), &fluxgate.Request{})
			if err != nil || !d.Allowed || d.Limit != int64(1_000+i) {
				t.Errorf("the last good rule set is not in effect: %+v, %v", d, err)
			}
		})
	}
	t.Logf("%d malformed documents were refused", len(malformed))
}
