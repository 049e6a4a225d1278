package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// applyOverridesFlags say which overrides are written.
type applyOverridesFlags struct {
	overrideFlags
	confirm confirmFlag
	file    string
}

func newOverrideApply() *cobra.Command {
	var f applyOverridesFlags
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Write the overrides of a CSV file", Args: noArgs,
		Long: `Check the overrides of a CSV file, ask for confirmation, and write them. The first line names the columns: rule, times
or bands, until, reason, ruleSet, and a column for each part of a caller: ip, userId, apiKey, header:NAME, attr:NAME and
so on. All are checked before one is written. Overrides that are not in the file stay unchanged.`,
		Example: `  fluxgate override apply -f overrides.csv --dry-run
  fluxgate override apply -f overrides.csv --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := f.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, operator admin.Operator) error { return f.apply(ctx, cmd, operator, text) })
		},
	}
	f.flags(cmd)
	f.confirm.flag(cmd)
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "the CSV file, or - for standard input")
	return cmd
}

func (f *applyOverridesFlags) read(stdin io.Reader) ([]byte, error) {
	switch f.file {
	case "":
		return nil, usage("name the overrides: -f FILE, or -f - for standard input")
	case "-":
		return io.ReadAll(stdin)
	}
	return os.ReadFile(f.file)
}

func (f *applyOverridesFlags) apply(ctx context.Context, cmd *cobra.Command, operator admin.Operator, text []byte) error {
	all, err := rules.ParseOverrides(bytes.NewReader(text), f.ruleSet)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	sets := map[string][]rules.Override{}
	for i := range all {
		all[i].Author = f.target.signature()
		sets[all[i].RuleSetID] = append(sets[all[i].RuleSetID], all[i])
	}
	write := func(dryRun bool, done string) error {
		for _, id := range slices.Sorted(maps.Keys(sets)) {
			for part := range slices.Chunk(sets[id], admin.MaxOverrides) {
				if _, err := putOverrides(ctx, operator, id, part, dryRun); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			printf(cmd.OutOrStdout(), "%s: %s %s\n", id, count(len(sets[id]), "override"), done)
		}
		return nil
	}
	if err := write(true, "checked"); err != nil {
		return err
	}
	if f.dryRun {
		printf(cmd.ErrOrStderr(), "nothing was changed: this was a dry run\n")
		return nil
	}
	if err := f.confirm.confirm(cmd, fmt.Sprintf("Write %s %s?", count(len(all), "override"), f.target.place)); err != nil {
		return err
	}
	return write(false, "written; other servers follow within seconds")
}
