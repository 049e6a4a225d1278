package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var source configFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server", Args: noArgs,
		Long: `Run the server until SIGTERM or SIGINT, which drain it; a second signal ends it at once.
SIGHUP reloads rules, tokens and certificates at once.`,
		Example: `  fluxgate serve --config fluxgate.yaml
  FLUXGATE_REDIS_URI=redis://redis:6379 fluxgate serve --set rules.file=/etc/fluxgate/rules.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := source.load()
			if err != nil {
				return err
			}
			return runServer(cmd, c)
		},
	}
	source.flags(cmd)
	return cmd
}

// runServer runs a server until a signal.
func runServer(cmd *cobra.Command, c *config.Config) error {
	if c.Redis.Enabled && os.Getenv("GOGC") == "" {
		// With the buckets in Redis the live heap is small, and the
		// default would collect all the time.
		debug.SetGCPercent(400)
	}
	logger, err := telemetry.NewLogger(cmd.ErrOrStderr(), c.Log.Format, c.Log.Level)
	if err != nil {
		return err
	}
	// The rest of the memory is for what the Go runtime does not count, and for what requests
	// allocate while garbage is being collected on a busy machine.
	memory := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)
	if _, err := memlimit.Set(memlimit.WithProvider(memory), memlimit.WithRatio(0.7)); err != nil {
		logger.Warn("cannot set a memory limit: GOMEMLIMIT can", "error", err)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before the start: the default ends the process
	defer signal.Stop(hangup)
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	app, err := server.New(ctx, c, server.Options{Logger: logger, Version: cmd.Root().Version})
	if err != nil {
		return err
	}
	// After the first signal the next one ends the process.
	context.AfterFunc(ctx, stop)
	go reloadOn(ctx, hangup, app)
	return app.Run(ctx)
}

// reloadOn reloads on every signal until ctx ends.
func reloadOn(ctx context.Context, signals <-chan os.Signal, app *server.App) {
	for {
		select {
		case <-signals:
			_ = app.Reload(ctx) // the server logs it
		case <-ctx.Done():
			return
		}
	}
}
