package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// checkFlags describe the request and the server.
type checkFlags struct {
	serverFlags
	timeout time.Duration
	output  outputFlag
	request requestFlags
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Ask a server whether a request is allowed", Args: noArgs,
		Long: `Ask a server whether a request is allowed, and take its tokens. With --peek nothing is taken.
The exit code is 0 if the request is allowed, 3 if it is rejected, and 5 if the rule set does not exist.`,
		Example: `  fluxgate check --user ada --path /api/orders --method POST
  fluxgate check --ip 192.0.2.7 --attribute tier=premium --peek --output json
  fluxgate check --rule-set llm --user ada --costs tokens=900,usd=1200`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := f.request.read()
			if err == nil {
				err = f.check(cmd)
			}
			if err != nil {
				return err
			}
			err = f.run(cmd, req)
			if errors.Is(err, fluxgate.ErrNoRuleSet) {
				printf(cmd.ErrOrStderr(), "fluxgate: %v\n", err)
				return exitCode(exitUnknown)
			}
			return err
		},
	}
	f.flags(cmd, httpListener)
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the answer, also while a rule holds the request")
	f.request.flags(cmd, "the rule set (default: the server's)")
	f.request.costFlags(cmd)
	flags.BoolVar(&f.request.request.Peek, "peek", false, "take nothing")
	f.output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command, req *fluxgate.Request) (err error) {
	if req.Cost == 0 {
		req.Peek = true // without --peek a cost of 0 means the default, 1
	}
	var failed error
	config := client.Config{
		Timeout: time.Second, MaxWait: f.timeout, OnFailure: rules.FailClosed,
		Failed: func(_ context.Context, err error) { failed = err },
	}
	if config.Token, config.TLS, err = f.credentials(); err != nil {
		return err
	}
	c, err := client.New(f.server, config)
	if err != nil {
		return f.invalidAddress(err)
	}
	defer func() { _ = c.Close() }()
	d, err := c.Check(cmd.Context(), req)
	if err == nil {
		err = failed
	}
	if errors.Is(err, fluxgate.ErrNoRuleSet) {
		return err // the server says what to do
	}
	if err != nil {
		return withAdvice(err, f.advice(err))
	}
	decision := wire.From(&d)
	noteUncounted(cmd.ErrOrStderr(), req.Costs, &decision)
	err = f.output.write(cmd.OutOrStdout(), &decision, func(out io.Writer) { writeDecision(out, &decision, "held for") })
	if err == nil && !d.Allowed {
		err = exitCode(exitRejected)
	}
	return err
}
