package fluxgate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// block finds the fenced blocks of a language in the README.
func block(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the README has no %s", language)
	}
	return blocks
}

func withoutIndent(s string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(s, "")
}

func TestTheExampleOfTheReadmeIsTheOneThatRuns(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if example := block(t, "go")[1]; !strings.Contains(withoutIndent(string(source)), withoutIndent(example)) {
		t.Error("the second Go block of the README is not the body of Example in example_test.go")
	}
}

func TestTheRulesOfTheReadmeAreARuleSet(t *testing.T) {
	for _, document := range block(t, "json") {
		if _, err := fluxgate.ParseRuleSet([]byte(document)); err != nil {
			t.Errorf("%v\n%s", err, document)
		}
	}
}

// The README names one rule set, the server's default, so that its parts fit
// together.
func TestReadme_OneRuleSetID(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?:NewRuleSet\("|WithRuleSet\("|RuleSets: \[\]string\{"|rule set "|--rule-set |"id": ")([\w-]+)(?:"[,)}] "?rules|")?`)
	found := 0
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
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
