package fluxgate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	gettingStarted = "docs/getting-started.md"
	startInGo      = "docs/start/go.md"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks finds the fenced blocks of a language on a page.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	fences := strings.Split("\n"+readFile(t, page), "\n```")
	var found []string
	for i := 1; i < len(fences); i += 2 {
		if head, body, _ := strings.Cut(fences[i], "\n"); head == language {
			found = append(found, body)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no block of %q", page, language)
	}
	return found
}

// Every Go block of docs/start/go.md is part of an example that compiles. The session of
// that page runs its first one, a whole program.
func TestGettingStarted_GoBlocks(t *testing.T) {
	plain := strings.NewReplacer("\t", "", `"testdata/rules.yaml"`, `"rules.yaml"`)
	var examples strings.Builder
	for _, name := range []string{"example_test.go", "rules/reload/example_test.go", "store/lease/example_test.go"} {
		examples.WriteString(readFile(t, name))
	}
	for _, block := range blocks(t, startInGo, "go")[1:] {
		if !strings.Contains(plain.Replace(examples.String()), plain.Replace(block)) {
			t.Errorf("no example has\n%s", block)
		}
	}
}

// The rule set of docs/getting-started.md is valid, and two mistakes in it are
// reported as shown there.
func TestGettingStarted_RuleSet(t *testing.T) {
	document := blocks(t, gettingStarted, "json")[0]
	if _, err := rules.Parse([]byte(document)); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	mistakes := strings.NewReplacer(`"capacity": 20`, `"capacity": 0`, `"/healthz"`, `"healthz"`).Replace(document)
	_, err := rules.Parse([]byte(mistakes))
	if err == nil || err.Error() != blocks(t, gettingStarted, "")[0] {
		t.Errorf("%s does not show\n%v", gettingStarted, err)
	}
}

// README.md and getting started name one rule set, the server's default,
// so that their parts fit together.
func TestReadme_OneRuleSetID(t *testing.T) {
	text := readFile(t, "README.md") + readFile(t, gettingStarted) + readFile(t, startInGo) + readFile(t, "docs/start/operator.md")
	named := regexp.MustCompile(`(?:NewSet\("|WithRuleSet\("|RuleSets: \[\]string\{"|rule set "|--rule-set |"id": ")([\w-]+)(?:"[,)}] "?rules|")?`)
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
