package redisrules

import (
	"context"
	_ "embed"
	"fmt"

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

	commitScript  = redis.NewScript(commitLua)
	loadScript    = redis.NewScript(loadLua)
	listScript    = redis.NewScript(listLua)
	historyScript = redis.NewScript(historyLua)
)

// reply is what a script has answered: text, or nil, at each place.
type reply []any

// text is the value at a place, if there is one.
func (r reply) text(i int) (string, bool) {
	if i >= len(r) {
		return "", false
	}
	s, ok := r[i].(string)
	return s, ok
}

// run runs a script, which the client brings to a server that does not have it.
func (s *Source) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (reply, error) {
	return within(ctx, s.config, func(ctx context.Context) (reply, error) {
		return script.Run(ctx, s.client, keys, args...).Slice()
	})
}

// within asks the server and waits no longer than the timeout.
//
// Whether a client's own waits end with a context is for its options to say,
// and by default they do not. So it is left alone with its call, which holds
// one of its connections until its timeouts end it.
func within[T any](ctx context.Context, config Config, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	limited, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := ask(limited)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-limited.Done():
	}
	select {
	case a := <-answers: // at the last moment
		return a.value, a.err
	default:
	}
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	return *new(T), fmt.Errorf("no answer in %v: %w", config.Timeout, limited.Err())
}
