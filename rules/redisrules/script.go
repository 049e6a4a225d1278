package redisrules

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/commit.lua
	commitLua string
	//go:embed lua/load.lua
	loadLua string
	//go:embed lua/list.lua
	listLua string
	//go:embed lua/history.lua
	historyLua string
	//go:embed lua/putoverrides.lua
	putOverridesLua string
	//go:embed lua/overridechanges.lua
	overrideChangesLua string
	//go:embed lua/listoverrides.lua
	listOverridesLua string
	//go:embed lua/overridestate.lua
	overrideStateLua string
	//go:embed lua/restoreoverrides.lua
	restoreOverridesLua string

	commitScript  = redis.NewScript(commitLua)
	loadScript    = redis.NewScript(loadLua)
	listScript    = redis.NewScript(listLua)
	historyScript = redis.NewScript(historyLua)

	putOverridesScript    = redis.NewScript(putOverridesLua)
	overrideChangesScript = redis.NewScript(overrideChangesLua)
	listOverridesScript   = redis.NewScript(listOverridesLua)
	overrideStateScript   = redis.NewScript(overrideStateLua)
	restoreScript         = redis.NewScript(restoreOverridesLua)
	// beginScript sets a record that is missing, and returns that of the data.
	beginScript = redis.NewScript(`redis.call('HSETNX', KEYS[1], 'id', ARGV[1]) redis.call('HSETNX', KEYS[1], 'epoch', ARGV[2]) ` +
		`return redis.call('HMGET', KEYS[1], 'id', 'epoch')`)
	// overrideScript is a script because a client may send a command to a replica.
	overrideScript = redis.NewScript(`return { redis.call('HGET', KEYS[1], ARGV[1]) }`)
)

// reply is the result of a script: a string or nil in each element.
type reply []any

// text returns the string in an element, if it has one.
func (r reply) text(i int) (string, bool) {
	if i >= len(r) {
		return "", false
	}
	s, ok := r[i].(string)
	return s, ok
}

// run runs a script. The client loads it if the server does not have it.
func (s *database) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (reply, error) {
	return within(ctx, s.config, func(ctx context.Context) (reply, error) {
		return script.Run(ctx, s.client, keys, args...).Slice()
	})
}

// within calls the server and waits no longer than the timeout.
func within[T any](ctx context.Context, config Config, call func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	value, err := call(limited)
	var timeout net.Error
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("no answer in %v: %w", config.Timeout, context.DeadlineExceeded)
	}
	return value, err
}
