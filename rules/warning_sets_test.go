package rules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Rule sets of examples, pages, deployments, tests and the specification, and configurations of
// envoyproxy/ratelimit, have no warnings but those that are true.
func TestSet_Warnings_NoFalseAlarm_NoRace(t *testing.T) {
	proven := []string{
		// Of the conformance tests of clients, which want to see two limits in one decision.
		`../clients/conformance/rules.yaml: rules[8].bands: rule "wide" rejects no request: the limit of rule "narrow", which applies to all of them, is always reached first`,
	}
	sets := 0
	look := func(path, text string) {
		indented := strings.ReplaceAll(text, "\n", "\n    ")
		for _, whole := range []string{text, "id: x\nrules:\n" + text, "id: x\nrules:\n  - " + indented} {
			for _, set := range parsed(whole) {
				sets++
				for _, w := range set.Warnings().List {
					if line := path + ": " + w.String(); !slices.Contains(proven, line) {
						t.Error(line)
					}
				}
			}
		}
	}
	look("the specification", specDocument)
	block := regexp.MustCompile("(?s)\n *```(?:yaml|json)\n(.*?)\n *```")
	for _, root := range []string{"../examples", "../docs", "../deploy", "../clients/conformance", "../clients/python/examples", "../server/config/testdata", "../README.md", "."} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			text, _ := os.ReadFile(path) // nothing of a folder
			switch filepath.Ext(path) {
			case ".md":
				for _, found := range block.FindAllStringSubmatch(string(text), -1) {
					if d.Name() != "rule-warnings.md" {
						look(path, found[1])
					}
				}
			case ".yaml", ".json":
				look(path, string(text))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if sets < 50 {
		t.Errorf("only %d rule sets were found", sets)
	}
}

// parsed are the rule sets of a text in either format, if it is valid.
func parsed(text string) []*rules.Set {
	sets, _ := filerules.Parse("rules.yaml", []byte(text))
	converted, _ := envoyrules.Parser(func(envoyrules.Remark) {})("rules.yaml", []byte(text))
	return append(sets, converted...)
}
