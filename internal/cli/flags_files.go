package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// fileFlags name files with rules, and their format.
type fileFlags struct {
	names  []string
	within string
	format formatFlag // empty means rules of FluxGate

	warns, strict bool // whether warnings are shown, and are errors
	warnings      []filerules.Problem
}

func (f *fileFlags) flag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.names, "file", "f", nil,
		"a file or a folder with rules, or - for standard input; can be given several times")
}

// warningFlag adds --strict, for commands that show warnings.
func (f *fileFlags) warningFlag(cmd *cobra.Command) {
	f.warns = true
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with code 1 if there is a warning")
}

// showWarnings writes the warnings of the files that were read. With --strict they are an error.
func (f *fileFlags) showWarnings(cmd *cobra.Command) error {
	for _, w := range f.warnings {
		printf(cmd.ErrOrStderr(), "%v\n", w)
	}
	if f.strict && len(f.warnings) > 0 {
		return exitCode(exitError)
	}
	return nil
}

const envoyFormat = "envoy-ratelimit"

// formatFlag adds --from.
func (f *fileFlags) formatFlag(cmd *cobra.Command) {
	f.format.formats = []string{envoyFormat}
	cmd.Flags().Var(&f.format, "from", "the format of the files: "+envoyFormat+" is the configuration of envoyproxy/ratelimit")
}

// parseFunc parses the text of a file. Nil is that of package filerules.
type parseFunc func(name string, data []byte) ([]*rules.Set, error)

// parser returns the function that parses files. Notes on them go to standard error.
func (f *fileFlags) parser(cmd *cobra.Command) parseFunc {
	if f.format.format == "" {
		return nil
	}
	return envoyrules.Parser(func(n envoyrules.Remark) { printf(cmd.ErrOrStderr(), "%s\n", n) })
}

// readOrReport is read for commands about errors: they are written as they are, for
// programs that look for file:line:column at the beginning of a line.
func (f *fileFlags) readOrReport(cmd *cobra.Command) ([]*rules.Set, error) {
	sets, err := f.read(cmd)
	var misuse *usageError
	if err == nil || errors.As(err, &misuse) {
		return sets, err
	}
	printf(cmd.ErrOrStderr(), "%v\n", err)
	return nil, exitCode(exitError)
}

// read reads the rule sets of all files in the order of their ids, and returns
// the errors of all files.
func (f *fileFlags) read(cmd *cobra.Command) (sets []*rules.Set, err error) {
	if len(f.names) == 0 {
		return nil, usage("name the rules: -f FILE, -f FOLDER, or -f - for standard input")
	}
	var problems []error
	files := map[string]string{} // by the id of their rule set
	for i, name := range f.names {
		if slices.Contains(f.names[:i], name) {
			continue
		}
		found, err := f.readRules(cmd, name)
		if err != nil {
			problems = append(problems, err)
		}
		for _, set := range found {
			if first, taken := files[set.ID()]; taken {
				problems = append(problems, fmt.Errorf("%s: rule set %q is in %s already", name, set.ID(), first))
			}
			files[set.ID()] = name
		}
		sets = append(sets, found...)
	}
	slices.SortStableFunc(sets, func(a, b *rules.Set) int { return strings.Compare(a.ID(), b.ID()) })
	return sets, errors.Join(problems...)
}

// maxInput is how many bytes are read from standard input, as many as from a file.
const maxInput = 16 << 20

func (f *fileFlags) readRules(cmd *cobra.Command, name string) ([]*rules.Set, error) {
	ctx, parse := cmd.Context(), f.parser(cmd)
	if name == "-" {
		sets, warnings, err := readStdin(cmd.InOrStdin(), parse, f.warns)
		f.warnings = append(f.warnings, warnings...)
		return sets, err
	}
	source, err := filerules.Open(name, filerules.Config{Parse: parse, Within: f.within, Warns: f.warns})
	if err != nil {
		return nil, &usageError{err}
	}
	ids, err := source.IDs(ctx)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s has no rules: their files end in .yaml, .yml or .json", name)
	}
	if err != nil {
		return nil, err
	}
	var sets []*rules.Set
	for _, id := range ids {
		version, err := source.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		sets = append(sets, version.RuleSet)
	}
	warnings, err := source.Warnings(ctx)
	f.warnings = append(f.warnings, warnings...)
	return sets, err
}

func readStdin(stdin io.Reader, parse parseFunc, warns bool) ([]*rules.Set, []filerules.Problem, error) {
	text, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = errors.New("more than 16 MiB")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading standard input: %w", err)
	}
	name := "stdin"
	if json.Valid(text) {
		name = "stdin.json"
	}
	if warns {
		return filerules.ParseWarned(name, text, parse)
	}
	if parse == nil {
		parse = filerules.Parse
	}
	sets, err := parse(name, text)
	return sets, nil, err
}
