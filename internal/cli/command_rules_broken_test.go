package cli

import (
	"os"
	"strings"
	"testing"
)

// While the rules file is broken, commands that read rules say what is wrong
// with the file, and name no body of a request that had none.
func TestRules_BrokenFile(t *testing.T) {
	folder := t.TempDir()
	file := write(t, folder, "rules.yaml", ruleSet("api-limits", 2))
	address, _ := serveWith(t, "rules.file="+file, "redis.enabled=false", "mongo.enabled=false")
	if err := os.WriteFile(file, []byte(strings.Replace(ruleSet("api-limits", 2), "capacity: 2", "capacity: two", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"rules list", "rules get api-limits", "rules get api-limits --revision 1", "rules history api-limits",
		"rules diff -f " + write(t, folder, "other.yaml", ruleSet("api-limits", 3)),
	} {
		code, _, errs := call(t, append(strings.Fields(command), "--server", "http://"+address)...)
		if code != exitError || strings.Contains(errs, "body") || !strings.Contains(errs, "rules.yaml:5:") || !strings.Contains(errs, "must be a whole number") {
			t.Errorf("fluxgate %s: exit code %d\n%s", command, code, errs)
		}
	}
}
