package filerules_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// The suite passes.
func TestConformance(t *testing.T) {
	rulestest.Run(t, func(t testing.TB) rulestest.Subject {
		dir := t.TempDir()
		write(t, "ruleSets: []\n", dir, "none.yaml") // a folder without files is an error
		return rulestest.Subject{
			Source: open(t, dir, filerules.Config{}),
			Write: func(t testing.TB, set *rules.Set) {
				t.Helper()
				replace(t, canonical(t, set), dir, set.ID()+".json")
			},
			Remove: func(t testing.TB, id string) {
				t.Helper()
				do(t, os.Remove(filepath.Join(dir, id+".json")))
			},
		}
	})
}
