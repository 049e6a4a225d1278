package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/simulate"
	"github.com/fluxgate/fluxgate/rules"
)

// simulateFlags are those of simulate.
type simulateFlags struct {
	server                  target // of --against
	rules, against, ruleSet string
	logs, fields            []string
	output                  outputFlag
}

func newSimulate() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use: "simulate --rules FILE --log FILE", Short: "Replay access logs: show what rules would have limited",
		Long: `Replay access logs through rules, on the clock of the log, and show which requests the rules would have limited. With
--against also show the difference to the rules that are in use, which are read from a file or from a server. Nothing
else is sent to a server.

Logs are in the combined format of nginx and Apache, or JSON lines, plain or compressed with gzip or bzip2. Several logs
are read together in the order of their times. Lines that cannot be parsed are counted and the first one is shown. The
exit code is 1 if a log cannot be read to its end, or if none of its lines can be parsed.

--field names the fields of JSON lines that have the parts of a request: time, ip, method, path, host, user, apiKey,
request (a line such as GET /path HTTP/1.1), cost, header.NAME, attr.NAME and cost.MEASURE. Other parts are looked up
under common names. Overrides are not applied.`,
		Example: `  fluxgate simulate --rules proposed.yaml --log /var/log/nginx/access.log*
  fluxgate simulate --rules proposed.yaml --against current.yaml --log access.log
  fluxgate simulate --rules proposed.yaml --against http://127.0.0.1:9090 --log access.log
  kubectl logs deploy/gateway | fluxgate simulate --rules proposed.yaml --log -
  fluxgate simulate --rules proposed.yaml --log app.json --field time=ts,ip=client.ip,header.X-Plan=plan`,
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			f.logs = append(f.logs, args...)
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rules, "rules", "", "the rules to try out: a file or a folder")
	flags.StringVar(&f.against, "against", "", "the rules to compare them with: a file, a folder, or the address of a server, "+
		"its setting "+adminListener.setting+", with http:// or https://")
	f.server.credentialFlags(cmd, "--against")
	flags.StringArrayVar(&f.logs, "log", nil, "an access log, or - for standard input; can be given several times, and followed by more")
	flags.StringSliceVar(&f.fields, "field", nil, "the fields of JSON lines with parts of the request, such as time=ts,ip=client.ip")
	flags.StringVar(&f.ruleSet, "rule-set", "", "the rule set, if the files have several")
	f.output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

// check refuses a wrong use of the command.
func (f *simulateFlags) check(args []string) error {
	switch {
	case f.rules == "":
		return usage("name the rules to try out: --rules FILE")
	case len(f.logs)+len(args) == 0:
		return usage("name the access log: --log FILE, or --log - for standard input")
	case f.rules == "-" || f.against == "-":
		return usage("rules are read from files: standard input is for the log")
	}
	if err := simulate.Fields(f.fields); err != nil {
		return usage("--field: %w", err)
	}
	return nil
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	proposed, err := f.read(cmd, f.rules, f.ruleSet)
	if err != nil {
		return err
	}
	cfg := simulate.Config{Proposed: proposed, Fields: f.fields}
	if f.against != "" {
		if cfg.Current, err = f.current(cmd, proposed.ID()); err != nil {
			return err
		}
	}
	report, err := f.replay(cmd, cfg)
	if err != nil {
		return err
	}
	if err := f.output.write(cmd.OutOrStdout(), report, func(out io.Writer) { writeSimulation(out, report) }); err != nil {
		return err
	}
	const formats = "they must be in the combined format of nginx or Apache, or JSON lines; see --field"
	if report.Requests == 0 {
		return errors.New("the logs have no line that can be parsed: " + formats)
	}
	var unread []string
	for _, l := range report.Logs {
		if l.Lines > 0 && l.Requests == 0 {
			unread = append(unread, printable.Line(l.Name, maxCell))
		}
	}
	if len(unread) > 0 {
		return fmt.Errorf("no line can be parsed, so their requests are not in the numbers above: %s\nlogs %s",
			strings.Join(unread, ", "), strings.TrimPrefix(formats, "they "))
	}
	return nil
}

// replay opens the logs and replays them.
func (f *simulateFlags) replay(cmd *cobra.Command, cfg simulate.Config) (*simulate.Report, error) {
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.clear()
	var files []io.Closer
	defer func() {
		for _, file := range files {
			_ = file.Close() // it was only read
		}
	}()
	for _, name := range f.logs {
		in := cmd.InOrStdin()
		if name != "-" {
			file, err := os.Open(name) //nolint:gosec // the file that the caller names
			if err != nil {
				return nil, err
			}
			files, in = append(files, file), file
		}
		cfg.Logs = append(cfg.Logs, simulate.Input{Name: name, Reader: io.TeeReader(in, bar)})
	}
	return simulate.Run(cmd.Context(), cfg)
}

// current returns the rule set of --against.
func (f *simulateFlags) current(cmd *cobra.Command, id string) (set *rules.Set, err error) {
	if !strings.Contains(f.against, "://") {
		return f.read(cmd, f.against, id)
	}
	f.server.server, f.server.listener, f.server.variable = f.against, adminListener, "--against"
	err = f.server.run(cmd, func(ctx context.Context, operator admin.Operator) error {
		version, err := operator.Load(ctx, id)
		if err == nil {
			set = version.RuleSet
		}
		return err
	})
	return set, err
}

// read reads a rule set of a file. Without an id it must be the only one.
func (f *simulateFlags) read(cmd *cobra.Command, name, id string) (*rules.Set, error) {
	sets, err := new(fileFlags).readRules(cmd, name)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, set := range sets {
		if set.ID() == id || id == "" && len(sets) == 1 {
			return set, nil
		}
		ids = append(ids, set.ID())
	}
	slices.Sort(ids)
	if id == "" {
		return nil, usage("%s has several rule sets: choose one with --rule-set: %s", name, strings.Join(ids, ", "))
	}
	return nil, usage("%s has no rule set %s: it has %s", name, id, strings.Join(ids, ", "))
}
