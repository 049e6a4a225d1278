package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// target are the flags that say what a command works on: the admin API of a
// server, or with --direct what a configuration names.
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

// flags adds them, and --output if there are formats.
func (t *target) flags(cmd *cobra.Command, formats ...string) {
	t.serverFlags.flags(cmd, adminListener)
	cmd.Flags().BoolVar(&t.direct, "direct", false, "work without a server, on the rule source and Redis of --config and --set")
	t.config.flags(cmd)
	if len(formats) > 0 {
		t.output.flag(cmd, formats...)
	}
}

// authorFlag adds the author of a direct change.
func (t *target) authorFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.author, "author", "", "with --direct: the author of the change (default: the user of this machine)")
}

// need is what a command works on.
type need int

const (
	needRules     need = iota // the rules alone
	needDecisions             // decisions by them
	needBuckets               // the buckets in the store
)

// run opens the target and calls do with it. Errors come with what to do next.
func (t *target) run(cmd *cobra.Command, on need, do func(context.Context, admin.Operator) error) (err error) {
	if err := t.check(cmd); err != nil {
		return err
	}
	operator, err := t.open(cmd, on)
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

// runRequest is run with the request of the flags, in the default rule set if
// they name none.
func (t *target) runRequest(
	cmd *cobra.Command, on need, flags *requestFlags, do func(context.Context, admin.Operator, *fluxgate.Request) error,
) error {
	req, err := flags.read()
	if err != nil {
		return err
	}
	return t.runRuleSet(cmd, on, &req.RuleSet, func(ctx context.Context, operator admin.Operator) error {
		return do(ctx, operator, req)
	})
}

// runRuleSet is run with a rule set, the default one if it is empty.
func (t *target) runRuleSet(cmd *cobra.Command, on need, id *string, do func(context.Context, admin.Operator) error) error {
	return t.run(cmd, on, func(ctx context.Context, operator admin.Operator) (err error) {
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

func (t *target) open(cmd *cobra.Command, on need) (openOperator, error) {
	if t.direct {
		return t.openDirect(cmd, on)
	}
	t.place = "at " + t.server
	return t.adminClient()
}

func (t *target) openDirect(cmd *cobra.Command, on need) (openOperator, error) {
	c, err := t.config.load()
	if err != nil {
		return nil, err
	}
	t.place = "directly in " + c.RuleSource()
	if on == needBuckets {
		t.place = "directly in " + config.SourceRedis
	}
	const inMemory = "with redis.enabled=false every server keeps its buckets in memory"
	switch {
	case on == needRules || c.Redis.Enabled:
	case on == needBuckets:
		return nil, errors.New(inMemory + ": ask one of them with --server")
	default:
		printf(cmd.ErrOrStderr(), "%s: this is the decision on full buckets\n", inMemory)
	}
	return server.NewOperator(cmd.Context(), c, on == needRules)
}

// signature is the author of a direct change. A server signs with the identity
// of its caller instead.
func (t *target) signature() string {
	if t.author != "" {
		return t.author
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user:" + u.Username
	}
	return fmt.Sprintf("user:%d", os.Getuid())
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
