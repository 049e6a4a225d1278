package admin_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// exceptions are the checks that a client does not pass, and why.
var exceptions = map[string]string{
	"reading returns every field of the rule set that was written":        "the times of rules are the server's",
	"a rule set is kept byte for byte":                                    "the times of rules are the server's",
	"a rule set can be as long as a document may be and no longer":        "the times of rules take some room",
	"history has the rules of every revision and of no other":             "the times of rules are the server's",
	"restoring makes any revision current again, byte for byte":           "the times of rules are the server's",
	"restoring works for deleted rule sets and not for deletions":         "the times of rules are the server's",
	"concurrent writers lose no change and every version can be restored": "the times of rules are the server's",
	"a change without an author or with control characters is rejected":   "the author is the authenticated identity",
	"every read of a change has its author, comment and time":             "the author is the authenticated identity",
}

// A client passes the conformance suite over the admin API and rules in memory.
func TestClient_Editor(t *testing.T) {
	d, other := newDesk(t), 0
	for _, c := range rulestest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if why, ok := exceptions[c.Name]; ok {
				other++
				t.Skip(why)
			}
			c.Run(t, rulestest.Subject{Editor: d.client})
		})
	}
	if other != len(exceptions) {
		t.Errorf("%d of %d checks that are left out do not exist", len(exceptions)-other, len(exceptions))
	}
}
