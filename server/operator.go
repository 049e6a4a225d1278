package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
)

// Operator works on the rules of a configuration without a server.
type Operator struct {
	*admin.Direct
	closers closers
}

// NewOperator opens the rules that a server with this configuration opens. Operations that need
// decisions or buckets are errors.
func NewOperator(ctx context.Context, c *config.Config) (_ *Operator, err error) {
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
	editor, err := feed.editor()
	if err != nil {
		return nil, err
	}
	o.Direct = admin.NewDirect(editor, nil, c.RateLimit.DefaultRuleSetID)
	return o, nil
}

// Close closes the rules and the store.
func (o *Operator) Close() error { return o.closers.close() }
