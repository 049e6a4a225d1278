package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/spf13/cobra"
)

// checkFlags describe the request and where to ask.
type checkFlags struct {
	remote
	timeout time.Duration
	as      output
	what    requestFlags
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Ask a server whether a request may pass", Args: noArgs,
		Long: "Ask a server whether a request may pass, and take its tokens. With --peek nothing is taken.\nThe exit code is 0 if it may, 3 if it may not.",
		Example: `  fluxgate check --user ada --path /api/orders --method POST
  fluxgate check --ip 192.0.2.7 --attribute tier=premium --peek --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.flags(cmd, "the server's address: its http listener; "+serverVariable+" is the default if it is set", "http://127.0.0.1:8080", serverVariable)
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the answer, a hold by a rule included")
	flags.StringVar(&f.what.request.RuleSet, "rule-set", "", "the rule set (default: the server's)")
	f.what.add(cmd)
	flags.Int64Var(&f.what.request.Cost, "cost", 1, "how many tokens it takes")
	flags.BoolVar(&f.what.request.Peek, "peek", false, "take nothing")
	f.as.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (f *checkFlags) run(ctx context.Context, out io.Writer) error {
	req, err := f.what.read()
	if err != nil {
		return err
	}
	if req.Cost == 0 {
		req.Peek = true // a request takes one token unless it says otherwise
	}
	var failed error
	config := client.Config{
		Timeout: time.Second, MaxWait: f.timeout, OnFailure: fluxgate.FailClosed,
		Failed: func(_ context.Context, err error) { failed = err },
	}
	if config.Token, config.TLS, err = f.secrets(); err != nil {
		return err
	}
	c, err := client.New(f.server, config)
	if err != nil {
		return &usageError{err}
	}
	defer func() { _ = c.Close() }()
	d, err := c.Check(ctx, req)
	if err == nil && failed != nil {
		err = failed
	}
	if err != nil {
		if hint := f.hint(err); hint != "" {
			err = fmt.Errorf("%w\n%s", err, hint)
		}
		return err
	}
	told := wire.From(&d)
	err = f.as.write(out, &told, func(out io.Writer) error {
		if err := printVerdict(out, &told, "held for"); err != nil {
			return err
		}
		return printBands(out, told.Bands)
	})
	if err == nil && !d.Allowed {
		err = exitCode(exitRefused)
	}
	return err
}

// hint is what to do about an error.
func (f *checkFlags) hint(err error) string {
	var answer *client.StatusError
	if !errors.As(err, &answer) {
		switch advice := adviceOnTLS(err); {
		case advice != "":
			return advice
		case errors.Is(err, client.ErrUndecided):
			return "" // it did not come to asking
		}
		return fmt.Sprintf("is a server running at %s? see fluxgate serve --help", f.server)
	}
	switch {
	case answer.Status == http.StatusUnauthorized:
		return f.adviceOnToken()
	case answer.Status == http.StatusForbidden && answer.Detail == "":
		return "the token needs the role check"
	case answer.Status == http.StatusNotFound:
		return fmt.Sprintf("is %s the address of server.http? server.admin is another", f.server)
	case answer.Status == http.StatusBadRequest && answer.Detail == "" && strings.HasPrefix(f.server, "http://"):
		return maybeTLS
	}
	return ""
}
