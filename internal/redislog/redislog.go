// Package redislog logs the messages of go-redis to slog, at most one line a second:
// while a server is unavailable go-redis logs every failed connection.
//
// go-redis has one logger for the whole process. It is replaced when this
// package is initialised, so a program that calls redis.SetLogger in main keeps
// its own logger. Replacing it later would override the program's logger, and
// would race with clients that are in use.
package redislog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/redis/go-redis/v9"
)

func init() { redis.SetLogger(&process) }

var process = logger{level: slog.LevelWarn, throttle: logthrottle.New(time.Second)}

// Use sets the logger of the process and the level. A nil logger, the default, means
// slog.Default().
func Use(to *slog.Logger, level slog.Level) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.to, process.level = to, level
}

type logger struct {
	throttle *logthrottle.Throttle

	mu    sync.Mutex // guards the fields below
	to    *slog.Logger
	level slog.Level
}

// Printf is called by go-redis.
func (l *logger) Printf(ctx context.Context, format string, args ...any) {
	l.mu.Lock()
	to, level := cmp.Or(l.to, slog.Default()), l.level
	l.mu.Unlock()
	if !to.Enabled(ctx, level) {
		return
	}
	l.throttle.Log(ctx, to, level, "Redis client: "+fmt.Sprintf(format, args...))
}
