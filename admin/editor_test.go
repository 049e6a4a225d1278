package admin_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// habits are the checks of editors that a client does not keep to, and why.
var habits = map[string]string{
	"reading gives every field of the rules that were written":            "the times of rules are the server's",
	"what is put is kept to the byte":                                     "the times of rules are the server's",
	"what is put can be as long as a document may be and no longer":       "the times of rules take some room",
	"history has the rules of every revision and of no other":             "the times of rules are the server's",
	"restoring makes any revision current again, to the byte":             "the times of rules are the server's",
	"restoring brings back what was deleted and never a deletion":         "the times of rules are the server's",
	"concurrent writers lose no change and every version can be restored": "the times of rules are the server's",
	"a change that is not signed or would garble a listing is refused":    "the author is who the server takes the client for",
	"every read of a change has its author, comment and time":             "the author is who the server takes the client for",
}

// TestClient_Editor runs the suite of editors over a client, the admin API
// and rules in memory.
func TestClient_Editor(t *testing.T) {
	d, other := newDesk(t), 0
	for _, c := range rulestest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if why, ok := habits[c.Name]; ok {
				other++
				t.Skip(why)
			}
			c.Run(t, rulestest.Subject{Editor: d.client})
		})
	}
	if other != len(habits) {
		t.Errorf("%d of %d checks that are left out do not exist", len(habits)-other, len(habits))
	}
}
