package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/config"
)

// Operator works on the rules and the store of a configuration without a server.
type Operator struct {
	*admin.Direct
	app *App
}

// NewOperator opens what a server with this configuration opens, except its
// listeners. With rulesOnly it does not open the store, and operations that need
// it are errors.
func NewOperator(ctx context.Context, c *config.Config, rulesOnly bool, options Options) (_ *Operator, err error) {
	a := newApp(c, options)
	a.redisWait = 2 * openTimeout // an operation cannot do without Redis
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if err := c.Check(); err != nil {
		return nil, err
	}
	if rulesOnly {
		if err := a.openRules(ctx); err != nil {
			return nil, err
		}
	} else {
		for _, build := range []func(context.Context) error{a.buildTelemetry, a.buildRules, a.buildEngine} {
			if err := build(ctx); err != nil {
				return nil, err
			}
		}
	}
	editor, err := a.editor()
	if err != nil {
		return nil, err
	}
	return &Operator{Direct: admin.NewDirect(editor, a.plane.engine.Load, c.RateLimit.DefaultRuleSetID), app: a}, nil
}

// Close closes all that was opened.
func (o *Operator) Close() error { return o.app.close() }

// editor returns the source of the rules for operators: its changes are announced,
// so that no server waits for its next poll.
func (a *App) editor() (rules.Editor, error) {
	switch source := a.source.Source.(type) {
	case rules.Editor:
		if a.redis == nil {
			return source, nil
		}
		announcer, err := reload.NewAnnouncer(a.redis, reload.AnnouncerConfig{Channel: a.config.Reload.Channel, Source: "admin"})
		if err != nil {
			return nil, err
		}
		return reload.Announcing(source, announcer, a.log), nil
	case admin.Files:
		return admin.ReadOnly(source), nil
	}
	return nil, fmt.Errorf("rules in %s cannot be listed or edited", a.source.kind)
}
