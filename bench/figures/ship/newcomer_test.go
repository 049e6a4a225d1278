// Package ship measures what someone meets who picks the project up: how long it takes from a
// clone to a decision and to a green test run, and how large the parts are.
package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// newcomer is someone with a clone of the repository and nothing else: every cache is empty.
type newcomer struct{ clone, home string }

// newNewcomer clones the repository at root into a folder that [newcomer.close] removes.
func newNewcomer(ctx context.Context, root string) (*newcomer, error) {
	folder, err := os.MkdirTemp("", "fluxgate-ship-")
	if err != nil {
		return nil, err
	}
	n := &newcomer{clone: filepath.Join(folder, "fluxgate"), home: filepath.Join(folder, "home")}
	if text, err := exec.CommandContext(ctx, "git", "clone", "--quiet", root, n.clone).CombinedOutput(); err != nil {
		_ = n.close()
		return nil, fmt.Errorf("cloning %s: %w\n%s", root, err, text)
	}
	return n, nil
}

// close removes the clone and the caches.
func (n *newcomer) close() error {
	_ = exec.Command("chmod", "-R", "u+w", filepath.Dir(n.clone)).Run() // modules are read-only
	return os.RemoveAll(filepath.Dir(n.clone))
}

// minutes types commands into a shell in the clone, and returns how long they take and what
// they print.
func (n *newcomer) minutes(ctx context.Context, commands string) (minutes float64, output string, err error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", commands)
	cmd.Dir = n.clone
	cmd.Env = append(os.Environ(), "HOME="+n.home, "GOPATH="+n.home+"/go", "GOMODCACHE="+n.home+"/go/pkg/mod", "GOCACHE="+n.home+"/go-build",
		"PATH="+n.home+"/go/bin:"+os.Getenv("PATH"), "npm_config_cache="+n.home+"/npm", "XDG_CACHE_HOME="+n.home+"/cache")
	start := time.Now()
	text, err := cmd.CombinedOutput()
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w\n%s", commands, err, text[max(0, len(text)-20_000):])
	}
	return time.Since(start).Minutes(), string(text), nil
}

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
