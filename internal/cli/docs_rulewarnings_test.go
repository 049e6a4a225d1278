package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// The example of docs/rule-warnings.md has every kind of warning, and the command prints what the
// page shows.
func TestDocs_RuleWarnings(t *testing.T) {
	page := readFile(t, "docs/rule-warnings.md")
	text := dataBlock.FindStringSubmatch(page)[2]
	_, shown, _ := strings.Cut(page, "$ fluxgate rules validate -f plans.yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	t.Chdir(t.TempDir())
	write(t, ".", "plans.yaml", text)
	code, out, errs := call(t, "rules", "validate", "-f", "plans.yaml")
	if code != exitOK || errs+out != shown {
		t.Errorf("exit code %d\n%s%swant\n%s", code, errs, out, shown)
	}
	sets, err := filerules.Parse("plans.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	given := map[rules.WarningKind]bool{}
	for _, w := range sets[0].Warnings().List {
		given[w.Kind] = true
	}
	listed := regexp.MustCompile("\n\\| `([a-z-]+)` \\|").FindAllStringSubmatch(page, -1)
	if len(listed) != len(given) {
		t.Errorf("the page lists %d kinds, and the example has %d", len(listed), len(given))
	}
	for _, kind := range listed {
		if !given[rules.WarningKind(kind[1])] {
			t.Errorf("the example has no warning %s", kind[1])
		}
	}
}
