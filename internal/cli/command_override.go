package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

func newOverride() *cobra.Command {
	return group(&cobra.Command{
		Use: "override", Short: "Give single callers other numbers of a rule",
		Long: `Give single callers other numbers of a rule, until a moment or for good. The caller keeps the bucket, and what was used
of it carries over. Rules must be in Redis or MongoDB.`,
		Example: `  fluxgate override set --rule per-user --user acme --times 10 --for 1h --reason "launch day"
  fluxgate override list
  fluxgate override delete --rule per-user --user acme`,
	}, newOverrideSet(), newOverrideList(), newOverrideDelete(), newOverrideApply())
}

// overrideFlags are shared by the commands that change overrides.
type overrideFlags struct {
	target  target
	ruleSet string
	dryRun  bool
}

func (f *overrideFlags) flags(cmd *cobra.Command) {
	f.target.flags(cmd)
	f.target.ruleSetFlag(cmd, &f.ruleSet, ruleSetHelp)
	cmd.Flags().StringVar(&f.target.author, "author", "", "with --direct: the author of the change (default: the user of this machine)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would change, and change nothing")
}

// run calls do with the rule set of the flags if its overrides can be changed. Checking them takes a store.
func (f *overrideFlags) run(cmd *cobra.Command, do func(context.Context, admin.Operator) error) error {
	return f.target.runRuleSet(cmd, needDecisions, &f.ruleSet, func(ctx context.Context, operator admin.Operator) error {
		if err := changeable(ctx, operator); err != nil {
			return err
		}
		return do(ctx, operator)
	})
}

// putOverrides writes changes, or only checks them.
func putOverrides(
	ctx context.Context, operator admin.Operator, ruleSet string, changes []rules.Override, dryRun bool,
) (*admin.OverridesChanged, error) {
	done, err := operator.PutOverrides(ctx, ruleSet, changes, dryRun)
	problem := admin.ProblemOf(err)
	switch {
	case err == nil:
		return done, nil
	case problem != nil && len(problem.Errors) > 0:
		return nil, errors.New(describeOverrides(problem, changes))
	case !dryRun && problem == nil && uncertain(err):
		return nil, fmt.Errorf("%w\nthe change may have been made: check fluxgate override list before you try again", err)
	}
	return nil, err
}

// describeOverrides says which changes are not valid.
func describeOverrides(p *admin.Problem, changes []rules.Override) string {
	if len(changes) == 1 {
		return p.Errors[0].Message
	}
	lines := []string{p.Detail}
	for _, e := range p.Errors {
		if i, ok := e.Path[len(e.Path)-1].(int); ok && i < len(changes) {
			o := &changes[i]
			lines = append(lines, fmt.Sprintf("  override %d (%s, %s): %s", i+1, o.RuleID, callerText(o.Identity), e.Message))
		}
	}
	return strings.Join(lines, "\n")
}

// report says what a change of one override did.
func (f *overrideFlags) report(cmd *cobra.Command, what, id string) {
	if f.dryRun {
		printf(cmd.ErrOrStderr(), "nothing was changed: this was a dry run\n")
		return
	}
	printf(cmd.OutOrStdout(), "%s override %s; other servers follow within seconds\n", what, id)
}

// callerFlags name a rule and a caller under it.
type callerFlags struct {
	rule                        string
	ip, user, key, method, path string
	headers, attributes         map[string]string
}

func (f *callerFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rule, "rule", "", "the rule")
	flags.StringVar(&f.ip, "ip", "", "the client's IP address, or its IPv6 network")
	flags.StringVar(&f.user, "user", "", "the user")
	flags.StringVar(&f.key, "api-key", "", "the API key, or sha256: and the digits of its digest")
	flags.StringVar(&f.method, "method", "", "the method, if the rule counts by it")
	flags.StringVar(&f.path, "path", "", "the path, if the rule counts by it")
	flags.StringToStringVar(&f.headers, "header", nil, "a header that the rule counts by, such as X-Plan=gold")
	flags.StringToStringVar(&f.attributes, "attribute", nil, "an attribute that the rule counts by, such as tenant=acme")
}

// read returns an override without numbers.
func (f *callerFlags) read() (rules.Override, error) {
	if !rules.ValidID(f.rule) {
		return rules.Override{}, usage("--rule is required: the id of a rule, see fluxgate rules get")
	}
	identity := map[string]string{"ip": f.ip, "userId": f.user, "apiKey": f.key, "method": f.method, "path": f.path}
	maps.DeleteFunc(identity, func(_, value string) bool { return value == "" })
	for name, value := range f.headers {
		identity["header:"+name] = value
	}
	for name, value := range f.attributes {
		identity["attr:"+name] = value
	}
	return rules.Override{RuleID: f.rule, Identity: identity}, nil
}

// callerText shows an identity on one line, and of an API key the first digits of its digest.
func callerText(identity map[string]string) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(identity)) {
		value := identity[name]
		if name == "apiKey" {
			value = fmt.Sprintf("%.15s…", rules.DigestAPIKey(value))
		}
		parts = append(parts, name+" "+value)
	}
	if len(parts) == 0 {
		return "all callers"
	}
	return printable.Line(strings.Join(parts, ", "), 5*maxCell)
}
