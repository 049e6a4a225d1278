package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/spf13/cobra"
)

// minInterval keeps the three requests of a refresh below the default of
// server.admin-rate.
const minInterval = 500 * time.Millisecond

// topRows is how many rules and callers top asks for.
const topRows = 20

// topFlags are the flags of top.
type topFlags struct {
	serverFlags
	interval time.Duration
	once     bool
	output   outputFlag
}

func newTop() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use: "top", Short: "Show the live numbers of all servers", Args: noArgs,
		Long: `Show how many requests all servers that share Redis allow and limit now, their problems, and the rules and callers
that are limited most. In a terminal the numbers are refreshed in place until ctrl-C; elsewhere they are printed once.
Only the role identities sees who the callers are; other roles see the first digits of their keys.
While the server does not answer, the last numbers are shown with their age and the error.`,
		Example: `  fluxgate top
  fluxgate top --server https://fluxgate.example.com:9090 --token-file ada.token --interval 5s
  fluxgate top --once
  fluxgate top --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.interval < minInterval {
				return usage("--interval must be at least %v", minInterval)
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.serverOnly = true
	f.flags(cmd, adminListener)
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "time between two refreshes")
	cmd.Flags().BoolVar(&f.once, "once", false,
		"print the numbers once, without control sequences; the default if standard output is not a terminal")
	f.output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command) error {
	client, err := f.adminClient()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	answers, err := fetchTop(cmd.Context(), client)
	if err != nil {
		return withAdvice(err, f.advice(err))
	}
	out := cmd.OutOrStdout()
	if f.output.format == asTable && !f.once && isTerminal(out) && os.Getenv("TERM") != "dumb" {
		return f.watch(cmd.Context(), client, answers, out)
	}
	return f.output.write(out, answers, func(out io.Writer) {
		width, _ := terminalSize(out)
		for _, l := range answers.lines(width, 0, nil) {
			printf(out, "%s\n", l.text)
		}
	})
}

// maxAnswerTime bounds the time that a refresh waits for the server.
const maxAnswerTime = 5 * time.Second

func fetchTop(ctx context.Context, client *admin.Client) (*topAnswers, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswerTime)
	defer cancel()
	live, err := client.Live(ctx, admin.LiveQuery{Limit: topRows})
	if err != nil {
		return nil, err
	}
	fleet, err := client.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	callers, err := client.Callers(ctx, admin.CallersQuery{Limit: topRows})
	if err != nil {
		return nil, err
	}
	return &topAnswers{live, fleet, callers}, nil
}
