package server_test

import (
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Overrides in a file are in effect and follow its changes.
func TestOverrides_File(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.csv")
	write(t, file, "ruleSet,rule,userId,times\napi-limits,everyone,acme,2.5\n")
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 10), "rules.overrides-file="+file)
	limitIs := func(want float64) func() bool {
		return func() bool { return r.check(t, "acme")["limit"] == want }
	}
	testenv.Eventually(t, "the override is in effect", limitIs(25))
	write(t, file, "ruleSet,rule,userId,times\napi-limits,everyone,acme,3\n")
	testenv.Eventually(t, "the changed override is in effect", limitIs(30))
	if d := r.check(t, "another"); d["limit"] != 10.0 {
		t.Errorf("another caller has the limit %v", d["limit"])
	}
}
