package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var from sources
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server", Args: noArgs,
		Long: `Run the server until SIGTERM or SIGINT, which drain it; a second one ends it at once.
SIGHUP looks at rules, tokens and certificates at once.`,
		Example: `  fluxgate serve --config fluxgate.yaml
  FLUXGATE_REDIS_URI=redis://redis:6379 fluxgate serve --set rules.file=/etc/fluxgate/rules.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			logger, err := telemetry.NewLogger(cmd.ErrOrStderr(), c.Log.Format, c.Log.Level)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			app, err := server.New(ctx, c, server.Options{Logger: logger, Version: fullVersion()})
			if err != nil {
				return err
			}
			// After the first signal the next one ends the process.
			context.AfterFunc(ctx, stop)
			end := reloadOnHangup(ctx, app)
			err = app.Run(ctx)
			end()
			return err
		},
	}
	from.flags(cmd)
	return cmd
}

// reloadOnHangup reloads on SIGHUP until end is called.
func reloadOnHangup(ctx context.Context, app *server.App) (end func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangup:
				if err := app.Reload(ctx); err != nil && errors.Is(err, context.Canceled) {
					return
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		close(done)
	}
}
