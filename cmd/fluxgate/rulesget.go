package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

func newRulesGet() *cobra.Command {
	var from where
	var as output
	var revision int64
	cmd := &cobra.Command{
		Use: "get ID", Short: "Print a rule set as a document", Args: oneRuleSet,
		Long: `Print a rule set as a document that apply takes, as it is now or as it was at a revision.
The times at which its rules were made and changed (createdAt, updatedAt) are left out: they are kept by the control
plane, whatever a document says. The admin API has them.`,
		Example: `  fluxgate rules get api-limits > api-limits.yaml
  fluxgate rules get api-limits --revision 7 --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") && revision < 1 {
				return usage("--revision: %d is not a revision: it is a number from 1 on", revision)
			}
			return from.work(cmd, needRules, func(ctx context.Context, operator admin.Operator) error {
				version, err := versionOf(ctx, operator, args[0], revision)
				if err != nil {
					return err
				}
				doc, err := documentOf(version.RuleSet)
				if err != nil {
					return err
				}
				return as.write(cmd.OutOrStdout(), doc, func(io.Writer) error { return nil })
			})
		},
	}
	from.flags(cmd)
	as.flag(cmd, asYAML, asJSON)
	cmd.Flags().Int64Var(&revision, "revision", 0, "as it was at a revision (default: as it is)")
	return cmd
}

// versionOf is a rule set at a revision, or as it is now at 0.
func versionOf(ctx context.Context, operator admin.Operator, id string, revision int64) (*rules.Version, error) {
	if revision == 0 {
		return operator.Load(ctx, id)
	}
	version, err := operator.Version(ctx, id, revision)
	if err == nil && version.RuleSet == nil {
		err = fmt.Errorf("revision %d of rule set %q took it away: %w", revision, id, rules.ErrNotFound)
	}
	return version, err
}

// documentOf is a rule set as its author would write it: without what the
// control plane keeps, and without saying in every rule where it belongs.
func documentOf(set *fluxgate.RuleSet) (*fluxgate.RuleSetDocument, error) {
	text, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("writing rule set %q: %w", set.ID(), err)
	}
	doc, from := new(fluxgate.RuleSetDocument), json.NewDecoder(bytes.NewReader(text))
	from.UseNumber() // free attributes may have numbers of any length
	if err := from.Decode(doc); err != nil {
		return nil, fmt.Errorf("writing rule set %q: %w", set.ID(), err)
	}
	for i := range doc.Rules {
		r := &doc.Rules[i]
		r.RuleSetID, r.CreatedAt, r.UpdatedAt = "", nil, nil
	}
	return doc, nil
}
