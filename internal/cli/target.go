package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/spf13/cobra"
)

// target are the flags that say what a command works on: the admin API of a
// server, or with --direct the rule source of a configuration.
type target struct {
	serverFlags

	direct bool
	config configFlags
	author string
	output outputFlag // of commands that show something

	// place is the target in words once it is open: "at http://..." or
	// "directly in redis".
	place string
}

// flags adds those of a server, and --output if there are formats.
func (t *target) flags(cmd *cobra.Command, formats ...string) {
	t.serverFlags.flags(cmd, adminListener)
	if len(formats) > 0 {
		t.output.flag(cmd, formats...)
	}
}

// directFlags adds those of commands that need rules only.
func (t *target) directFlags(cmd *cobra.Command) {
	t.mayBeDirect = true
	cmd.Flags().BoolVar(&t.direct, "direct", false, "work without a server, on the rule source of --config and --set")
	t.config.flags(cmd)
}

// authorFlag adds the author of a direct change.
func (t *target) authorFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.author, "author", "", "with --direct: the author of the change (default: the user of this machine)")
}

// run opens the target and calls do with it. Errors come with what to do next.
func (t *target) run(cmd *cobra.Command, do func(context.Context, admin.Operator) error) (err error) {
	if err := t.check(cmd); err != nil {
		return err
	}
	operator, err := t.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Close()) }()
	return t.advise(do(cmd.Context(), operator))
}

// show writes what a command has found.
func (t *target) show(cmd *cobra.Command, found any, err error, table func(io.Writer)) error {
	if err != nil {
		return err
	}
	return t.output.write(cmd.OutOrStdout(), found, table)
}

// runRuleSet is run with a rule set, the default one if it is empty.
func (t *target) runRuleSet(cmd *cobra.Command, id *string, do func(context.Context, admin.Operator) error) error {
	return t.run(cmd, func(ctx context.Context, operator admin.Operator) (err error) {
		if *id == "" {
			*id, err = defaultRuleSet(ctx, operator)
		}
		if err == nil {
			err = checkRuleSet(*id)
		}
		if err != nil {
			return err
		}
		return do(ctx, operator)
	})
}

// check refuses flags that contradict each other.
func (t *target) check(cmd *cobra.Command) error {
	wrong, why := []string{"config", "set", "author"}, "needs --direct"
	if t.direct {
		wrong, why = []string{"server", "token-file", "ca-file", "cert-file", "key-file"}, "is for a server, and --direct works without one"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return usage("--%s %s", name, why)
		}
	}
	if t.direct {
		return nil
	}
	return t.serverFlags.check(cmd)
}

// openOperator is an operator that is closed after use.
type openOperator interface {
	admin.Operator
	io.Closer
}

func (t *target) open(cmd *cobra.Command) (openOperator, error) {
	if !t.direct {
		t.place = "at " + t.server
		return t.adminClient()
	}
	c, err := t.config.load()
	if err != nil {
		return nil, err
	}
	t.place = "directly in " + c.RuleSource()
	return server.NewOperator(cmd.Context(), c)
}

// signature is the author of a direct change. A server signs with the identity
// of its caller instead.
func (t *target) signature() string {
	return cmp.Or(t.author, "user:"+cmp.Or(os.Getenv("USER"), strconv.Itoa(os.Getuid())))
}

// advise adds to an error what to do about it.
func (t *target) advise(err error) error {
	var code exitCode
	var misuse *usageError
	switch {
	case err == nil, errors.As(err, &code), errors.As(err, &misuse), errors.Is(err, admin.ErrReadOnly):
		return err
	case errors.Is(err, fluxgate.ErrNoRule):
		return withAdvice(err, "see fluxgate rules get for the existing rules")
	case errors.Is(err, rules.ErrNotFound), errors.Is(err, fluxgate.ErrNoRuleSet):
		return withAdvice(err, "see fluxgate rules list for the existing rule sets")
	case t.direct:
		return err
	}
	return withAdvice(err, t.advice(err))
}

func withAdvice(err error, advice string) error {
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, advice)
}

// ruleSetHelp is the help of an optional --rule-set.
const ruleSetHelp = "the rule set (default: ratelimit.default-rule-set-id)"

// defaultRuleSet is the configured default, or the only rule set that the caller may read.
func defaultRuleSet(ctx context.Context, operator admin.Operator) (string, error) {
	who, err := operator.Whoami(ctx)
	if err != nil {
		return "", err
	}
	switch id := who.DefaultRuleSet; {
	case id != "" && (len(who.RuleSets) == 0 || slices.Contains(who.RuleSets, id)):
		return id, nil
	case len(who.RuleSets) == 1:
		return who.RuleSets[0], nil
	}
	return "", usage("choose a rule set with --rule-set: see fluxgate rules list")
}
