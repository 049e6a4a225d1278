package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"go.yaml.in/yaml/v3"
)

var dataBlock = regexp.MustCompile("(?s)\n```(yaml|json)\n(.*?)```")

// The rules in docs/migration.md and docs/faq.md are valid, and what is there of other
// programs can be parsed.
func TestDocs_MigrationRules(t *testing.T) {
	rules := 0
	for _, page := range []string{"docs/migration.md", "docs/faq.md"} {
		for _, block := range dataBlock.FindAllStringSubmatch(readFile(t, page), -1) {
			var value any
			if block[1] == "json" {
				if err := json.Unmarshal([]byte(block[2]), &value); err != nil {
					t.Errorf("%s: %v\n%s", page, err, block[2])
				}
				continue
			}
			if err := yaml.Unmarshal([]byte(block[2]), &value); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[2])
			}
			if !strings.HasPrefix(block[2], "id: ") {
				continue
			}
			rules++
			if code, _, errs := call(t, "rules", "validate", "-f", write(t, t.TempDir(), "rules.yaml", block[2])); code != exitOK {
				t.Errorf("%s: %s\n%s", page, errs, block[2])
			}
		}
	}
	if rules < 6 {
		t.Errorf("only %d rule sets were found", rules)
	}
}

// The rules that docs/migration.md shows for a configuration of envoyproxy/ratelimit
// are those that the import writes.
func TestDocs_MigrationImport(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "docs/migration.md"), "\n## envoyproxy/ratelimit\n")
	found := dataBlock.FindAllStringSubmatch(section, 2)
	folder := t.TempDir()
	theirs := write(t, folder, "config.yaml", found[0][2])
	code, imported, errs := call(t, "rules", "import", "--from", "envoy-ratelimit", theirs)
	if code != exitOK {
		t.Fatal(errs)
	}
	served := write(t, folder, "imported.yaml", imported)
	admin, _ := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+served, "ratelimit.default-rule-set-id=edge")
	code, out, errs := call(t, "rules", "diff", "-f", write(t, folder, "shown.yaml", found[1][2]), "--server", "http://"+admin)
	if code != exitOK {
		t.Errorf("they differ: %s%s\nthe import writes\n%s", out, errs, imported)
	}
}

// The session of docs/migration.md works.
func TestDocs_MigrationSession(t *testing.T) {
	testenv.SkipShort(t)
	runSession(t, sessionSteps(t, "docs/migration.md", "How to move"))
}

// Each section of docs/migration.md names the files and the commit that it is from.
func TestDocs_MigrationSources(t *testing.T) {
	for _, section := range strings.Split(readFile(t, "docs/migration.md"), "\n## ")[2:] {
		// The documents of Java FluxGate are those of this project.
		if name, _, _ := strings.Cut(section, "\n"); name != "Java FluxGate" && !regexp.MustCompile("\n\\*`.+ at [0-9a-f]{7}( of [\\w/-]+)?\\.\\*\n").MatchString(section) {
			t.Errorf("the section on %s does not name its sources", name)
		}
	}
}
