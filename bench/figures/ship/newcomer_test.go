// Package ship measures what someone meets who picks the project up: how long it takes from a
// clone to a decision and to a green test run, and how large the parts are.
package ship

import (
	"errors"
	"strings"
)

// firstDecisionOf returns the commands of the README that lead to a first decision. They install
// the clone, where the README installs the latest release.
func firstDecisionOf(readme string) (commands string, err error) {
	_, section, _ := strings.Cut(readme, "\n## First decision\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, rules, _ := strings.Cut(section, "```yaml\n")
	rules, _, hasRules := strings.Cut(rules, "```")
	_, block, _ := strings.Cut(section, "```console\n")
	block, _, hasCommands := strings.Cut(block, "\n```")
	if !hasRules || !hasCommands {
		return "", errors.New("the README has no rules or no commands under First decision")
	}
	var typed strings.Builder
	typed.WriteString("go install ./cmd/fluxgate\ncat > rules.yaml <<'END'\n" + rules + "END\n")
	for line := range strings.Lines(block + "\n") {
		if command, isCommand := strings.CutPrefix(line, "$ "); isCommand {
			typed.WriteString(command)
		}
	}
	typed.WriteString("kill %1\n") // as the text says
	return typed.String(), nil
}
