package reload

import (
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// An accepted message names a rule set or requests a full reload.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"ruleSetId":"set","fullReload":false,"revision":7,"timestamp":1700000000000,"source":"x","signature":"y"}`, `{}`, `*`, ` set `,
		`{"fullReload":true}`, `{"ruleSetId":"a\u0000b"}`, `[1]`, `{"RULESETID":"set"}`, `null`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		if m, err := parseMessage(payload); err == nil && !m.FullReload && !rules.ValidID(m.RuleSetID) {
			t.Fatalf("%q was accepted as %+v", payload, m)
		}
	})
}
