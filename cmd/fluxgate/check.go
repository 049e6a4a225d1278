package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// checkFlags describe the request and where to ask.
type checkFlags struct {
	server, tokenFile, output string
	timeout                   time.Duration

	request    fluxgate.Request
	ip         string
	headers    []string
	attributes map[string]string
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Ask a server whether a request may pass", Args: noArgs,
		Long: "Ask a server whether a request may pass, and take its tokens. With --peek nothing is taken.\nThe exit code is 0 if it may, 3 if it may not.",
		Example: `  fluxgate check --user ada --path /api/orders --method POST
  fluxgate check --ip 192.0.2.7 --attribute tier=premium --peek --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.request.Cost == 0 {
				f.request.Peek = true // a request takes one token unless it says otherwise
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.server, "server", "s", "http://127.0.0.1:8080", "the server's address")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the answer, a hold by a rule included")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json or yaml")
	flags.StringVar(&f.request.RuleSet, "rule-set", "", "the rule set (default: the server's)")
	flags.StringVar(&f.ip, "ip", "", "the client's address")
	flags.StringVar(&f.request.UserID, "user", "", "the user")
	flags.StringVar(&f.request.APIKey, "api-key", "", "the API key")
	flags.StringVar(&f.request.Method, "method", "GET", "the method")
	flags.StringVar(&f.request.Path, "path", "/", "the path")
	flags.StringVar(&f.request.Host, "host", "", "the host")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, such as X-Plan=gold")
	flags.StringToStringVar(&f.attributes, "attribute", nil, "an attribute, such as tier=premium")
	flags.Int64Var(&f.request.Cost, "cost", 1, "how many tokens it takes")
	flags.BoolVar(&f.request.Peek, "peek", false, "take nothing")
	return cmd
}

func (f *checkFlags) run(ctx context.Context, out io.Writer) error {
	switch f.output {
	case "table", "json", "yaml":
	default:
		return &usageError{fmt.Errorf("unknown output %q: use table, json or yaml", f.output)}
	}
	if err := f.complete(); err != nil {
		return err
	}
	var failed error
	config := client.Config{
		Timeout: time.Second, MaxWait: f.timeout, OnFailure: fluxgate.FailClosed,
		Failed: func(_ context.Context, err error) { failed = err },
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		config.Token = client.Secret(strings.TrimSpace(string(token)))
	}
	c, err := client.New(f.server, config)
	if err != nil {
		return &usageError{err}
	}
	defer func() { _ = c.Close() }()
	d, err := c.Check(ctx, &f.request)
	if err == nil && failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, f.hint(err))
	}
	if err := f.print(out, &d); err != nil {
		return err
	}
	if !d.Allowed {
		return exitCode(exitRefused)
	}
	return nil
}

// hint is what to do about an error.
func (f *checkFlags) hint(err error) string {
	var answer *client.StatusError
	switch {
	case !errors.As(err, &answer):
		return fmt.Sprintf("\nis a server running at %s? see fluxgate serve --help", f.server)
	case answer.Status == http.StatusUnauthorized:
		return "\nthe server asks for a token: use --token-file"
	case answer.Status == http.StatusForbidden:
		return "\nthe token needs the role check"
	}
	return ""
}

// complete reads the flags that need reading.
func (f *checkFlags) complete() error {
	f.request.Attributes = f.attributes
	if f.ip != "" {
		ip, err := netip.ParseAddr(f.ip)
		if err != nil {
			return &usageError{fmt.Errorf("--ip: %q is not an address", f.ip)}
		}
		f.request.IP = ip
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return &usageError{fmt.Errorf("--header: %q is not name=value", h)}
		}
		if f.request.Headers == nil {
			f.request.Headers = map[string][]string{}
		}
		f.request.Headers[name] = append(f.request.Headers[name], value)
	}
	return nil
}

func (f *checkFlags) print(out io.Writer, d *fluxgate.Decision) error {
	text := wire.Append(nil, d, "")
	switch f.output {
	case "json":
		_, err := fmt.Fprintf(out, "%s\n", text)
		return err
	case "yaml":
		tree, err := yaml.JSONToYAML(text)
		if err != nil {
			return err
		}
		_, err = out.Write(tree)
		return err
	}
	verdict := "allowed"
	if !d.Allowed {
		verdict = "refused"
	}
	_, _ = fmt.Fprintf(out, "%s (%s)", verdict, d.Reason)
	if d.RetryAfter > 0 {
		_, _ = fmt.Fprintf(out, ", try again in %v", ceilSecond(d.RetryAfter))
	}
	if d.Degraded {
		_, _ = fmt.Fprint(out, ", degraded: the store was not asked for every rule")
	}
	_, _ = fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	header := false
	for b := range d.Bands() {
		if !header {
			_, _ = fmt.Fprintln(table, "RULE\tBAND\tLEFT\tOF\tFULL IN")
			header = true
		}
		note := ""
		if b.Shadow() {
			note = "\tshadow"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%v%s\n", b.Rule.ID, b.Band.Name(), b.Remaining, b.Limit, ceilSecond(b.FullAfter), note)
	}
	return table.Flush()
}

// ceilSecond rounds up: who comes again after so long must fit.
func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
