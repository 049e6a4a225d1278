package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/plane"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// Operator works on the rules and the store of a configuration without a server.
type Operator struct {
	*admin.Direct
	closers closers
}

// NewOperator opens the rules and the store that a server with this configuration opens. With
// rulesOnly it does not open the store, and operations that need it are errors.
func NewOperator(ctx context.Context, c *config.Config, rulesOnly bool) (_ *Operator, err error) {
	log := slog.Default()
	redislog.Use(log, slog.LevelDebug)
	o := &Operator{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if err := c.Check(); err != nil {
		return nil, err
	}
	login, err := backend.RedisCredentials(&c.Redis, log)
	if err != nil {
		return nil, err
	}
	feed, err := openFeed(ctx, c, login, log, &o.closers)
	if err != nil {
		return nil, err
	}
	limiter, err := plane.New(c, log)
	if err != nil {
		return nil, err
	}
	o.closers.add(limiter.Close)
	if !rulesOnly {
		if err := feed.load(ctx, limiter, &o.closers); err != nil {
			return nil, err
		}
		// An operation cannot do without Redis.
		options := plane.Options{
			Rules: feed.rules, Overrides: feed.rules.UseOverrides,
			Observer: telemetry.New(telemetry.Config{Logger: log}), // it logs
			Wait:     2 * backend.OpenTimeout,
			Tool:     true,
			Login:    login,
		}
		if err := limiter.Open(ctx, options); err != nil {
			return nil, err
		}
	}
	editor, err := feed.editor()
	if err != nil {
		return nil, err
	}
	o.Direct = admin.NewDirect(editor, limiter.Engine, c.RateLimit.DefaultRuleSetID)
	o.Recent = limiter.RecentWarnings
	return o, nil
}

// Close closes the rules and the store.
func (o *Operator) Close() error { return o.closers.close() }
