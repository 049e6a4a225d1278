package fluxgate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// README.md and the first two ways name one rule set, the server's default,
// so that their parts fit together.
func TestReadme_OneRuleSetID(t *testing.T) {
	text := readFile(t, "README.md") + readFile(t, "docs/start/go.md") + readFile(t, "docs/start/platform.md")
	named := regexp.MustCompile(`(?:NewSet\("|WithRuleSet\("|RuleSets: \[\]string\{"|rule set "|--rule-set |"id": "|# rules.yaml\nid: )([\w-]+)(?:"[,)}] "?rules|")?`)
	found := 0
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[0], `"id"`) && !strings.HasSuffix(m[0], "rules") {
			continue // of a rule
		}
		if found++; m[1] != "api-limits" {
			t.Errorf("%s, not api-limits", m[0])
		}
	}
	if found < 8 {
		t.Errorf("only %d places that name a rule set", found)
	}
}

// README.ko.md is README.md in Korean: the same code, images and links.
func TestReadme_Korean(t *testing.T) {
	parts := regexp.MustCompile("(?s)\n```.*?\n```|\\]\\([^)]+\\)")
	own := map[string]string{"](#documentation)": "](#문서)", "](README.ko.md)": "](README.md)"}
	english, korean := parts.FindAllString(readFile(t, "README.md"), -1), parts.FindAllString(readFile(t, "README.ko.md"), -1)
	for i, part := range english {
		if other, ok := own[part]; ok {
			english[i] = other
		}
	}
	if len(english) < 50 {
		t.Errorf("README.md has only %d blocks and links", len(english))
	}
	for i := range max(len(english), len(korean)) {
		if i >= len(english) || i >= len(korean) || english[i] != korean[i] {
			t.Fatalf("README.ko.md differs from README.md, from\n%q\n%q", english[min(i, len(english)):], korean[min(i, len(korean)):])
		}
	}
}

// Nothing is tagged yet: a page that installs a release shows first how to build a clone.
func TestDocs_CloneBeforeLatest(t *testing.T) {
	for name, text := range filesOf(t, ".md") {
		latest := strings.Index(text, "github.com/fluxgate/fluxgate/cmd/fluxgate@latest")
		clone := strings.Index(text, "git clone https://github.com/fluxgate/fluxgate")
		if latest >= 0 && (clone < 0 || clone > latest) {
			t.Errorf("%s installs a version before it builds a clone", name)
		}
	}
}
