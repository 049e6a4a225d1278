package filerules_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// canonical returns the JSON that the revision of a rule set is computed from.
func canonical(t testing.TB, set *rules.Set) string {
	t.Helper()
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatalf("writing rule set %q: %v", set.ID(), err)
	}
	return string(data)
}

// Any file is a rule set that can be encoded and parsed again, or a printable
// error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"id: a\nrules:\n  - id: r\n    bands: [{capacity: 1, refill: 1s}]\n",
		"ruleSets:\n- id: a\n  rules: []\n- id: b\n  rules:\n  - {id: r, action: deny, when: {apiKeys: [k, \"1\"], headers: {X-A: b}}}\n",
		"---\nid: a\nrules: []\n---\nid: b\nrules: []\n...\n",
		`{"id": "a", "rules": [{"_id": "r", "bands": [{"capacity": 1e3, "windowSeconds": 60}], "attributes": {"n": 1.50, "t": ["\ud83d\ude00"]}}]}`,
		"id: a\nrules:\n  - {id: r, cost: usd, bands: [{capacity: 12.40 USD, refillTokens: 1 USD, refill: 1d}]}\n",
		"id: a\nrules:\n\t- id: x\n", "id: &a x\nrules: *a\n", "a: |\n  b\n\n c: d\n", "? a\n: b\n", "- - - -\n", "{[{[", "id: a\nid: b\nrules: []\n",
		"id: 0x1\nrules:\n  - id: 1_0\n    priority: .inf\n", "id: a # b\nrules: # c\n  # d\n  - id: 'r'\n    action: \"al\\u006cow\"\n", "\ufeffid: a\r\nrules: []\r\n",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		name := "rules.yaml"
		if asJSON {
			name = "rules.json"
		}
		start := time.Now()
		sets, err := filerules.Parse(name, data)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %s for %d bytes", took, len(data))
		}
		if err != nil {
			var problems *filerules.Error
			var invalid *rules.ValidationError
			if !errors.As(err, &problems) || len(problems.Problems) == 0 || !errors.As(err, &invalid) || err.Error() == "" {
				t.Fatalf("an error without a problem: %v", err)
			}
			return
		}
		for _, set := range sets {
			again, err := filerules.Parse("rules.json", []byte(canonical(t, set)))
			if err != nil {
				t.Fatalf("an accepted rule set is not accepted after encoding: %v", err)
			}
			if len(again) != 1 || canonical(t, again[0]) != canonical(t, set) {
				t.Fatalf("read\n%s\nwant\n%s", canonical(t, again[0]), canonical(t, set))
			}
		}
	})
}
