// Package workflows lints the workflows of GitHub.
package workflows

import (
	"bytes"
	"testing"

	"github.com/rhysd/actionlint"
)

// The workflows have no mistake that actionlint finds: unknown keys, expressions, needs
// and permissions. With shellcheck in PATH it also reads their scripts.
func TestLint(t *testing.T) {
	var report bytes.Buffer
	linter, err := actionlint.NewLinter(&report, &actionlint.LinterOptions{Shellcheck: "shellcheck"})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintRepository("../..")
	if err != nil || len(problems) > 0 {
		t.Errorf("%v\n%s", err, &report)
	}
}
