package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
)

// quietRedis has the logger of go-redis, of which a process has one, speak
// through ours and only to those who debug: what it says of every connection
// that fails, the store and the health say once.
func quietRedis(log *slog.Logger) {
	redisLog.mu.Lock()
	defer redisLog.mu.Unlock()
	redisLog.to = log
	redis.SetLogger(&redisLog)
}

var redisLog redisLogger

type redisLogger struct {
	mu sync.Mutex
	to *slog.Logger
}

// Printf is what go-redis calls.
func (l *redisLogger) Printf(ctx context.Context, format string, args ...any) {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	to.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}
