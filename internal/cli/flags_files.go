package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/spf13/cobra"
)

// files are the flags that name files with rules.
type files struct{ names []string }

func (f *files) flag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.names, "file", "f", nil, "a file or a folder with rules, or - for standard input; can be given several times")
}

// filesOnly is noArgs for commands that take files, which some forget is by -f.
func filesOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && looksLikeFile(args[0]) {
		return usage("%s takes no arguments: did you mean -f %s?", cmd.CommandPath(), args[0])
	}
	return noArgs(cmd, args)
}

// looksLikeFile reports whether an argument is a file rather than an id. A
// folder may have the name of a rule set.
func looksLikeFile(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	info, err := os.Stat(name)
	return err == nil && (!info.IsDir() || !fluxgate.ValidID(name))
}

// read reads the rule sets of all files, in the order of their ids. The errors
// are all that is wrong with any of them.
func (f *files) read(ctx context.Context, stdin io.Reader) ([]*fluxgate.RuleSet, []error) {
	if len(f.names) == 0 {
		return nil, []error{usage("say which rules: -f FILE, -f FOLDER, or -f - for standard input")}
	}
	var sets []*fluxgate.RuleSet
	var wrong []error
	seen := homes{sets: map[string]string{}, rules: map[string]string{}}
	for i, name := range f.names {
		if slices.Contains(f.names[:i], name) {
			continue
		}
		found, err := readRules(ctx, name, stdin)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		for _, set := range found {
			wrong = append(wrong, seen.add(set, name)...)
		}
		sets = append(sets, found...)
	}
	slices.SortStableFunc(sets, func(a, b *fluxgate.RuleSet) int { return strings.Compare(a.ID(), b.ID()) })
	return sets, wrong
}

// must is read for those who go no further if anything is wrong.
func (f *files) must(cmd *cobra.Command) ([]*fluxgate.RuleSet, error) {
	sets, wrong := f.read(cmd.Context(), cmd.InOrStdin())
	return sets, errors.Join(wrong...)
}

// maxInput is how much is read from standard input: as much as of a file.
const maxInput = 16 << 20

func readRules(ctx context.Context, name string, stdin io.Reader) ([]*fluxgate.RuleSet, error) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
		if err == nil && len(text) > maxInput {
			err = fmt.Errorf("it has more than %d MiB", maxInput>>20)
		}
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		name = "stdin"
		if json.Valid(text) {
			name = "stdin.json"
		}
		return filerules.Parse(name, text)
	}
	source, err := filerules.Open(name, filerules.Config{})
	if err != nil {
		return nil, &usageError{err}
	}
	ids, err := source.IDs(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s has no rules: their files end in .yaml, .yml or .json", name)
	}
	var sets []*fluxgate.RuleSet
	for _, id := range ids {
		version, err := source.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		sets = append(sets, version.RuleSet)
	}
	return sets, nil
}

// homes are in which of several files a rule set or a rule stands.
type homes struct{ sets, rules map[string]string }

// add refuses what stands in another file already. Within one file, or one
// folder, that has been looked at.
func (h *homes) add(set *fluxgate.RuleSet, name string) []error {
	if first, taken := h.sets[set.ID()]; taken {
		return []error{fmt.Errorf("%s: rule set %q is in %s already", name, set.ID(), first)}
	}
	h.sets[set.ID()] = name
	const most = 100
	var wrong []error
	for r := range set.Rules() {
		first, taken := h.rules[r.ID]
		if !taken {
			h.rules[r.ID] = name
		} else if len(wrong) < most {
			wrong = append(wrong, fmt.Errorf("%s: rule %q is in %s already", name, r.ID, first))
		}
	}
	return wrong
}
