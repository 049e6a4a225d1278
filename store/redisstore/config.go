package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/redis/go-redis/v9"
)

// Mode is the topology of the servers.
type Mode string

// The modes.
const (
	// ModeAuto detects the topology: Cluster for several hosts, and for a server
	// that is part of a cluster.
	ModeAuto       Mode = "auto"
	ModeStandalone Mode = "standalone"
	ModeSentinel   Mode = "sentinel"
	ModeCluster    Mode = "cluster"
)

// Config configures a [Store]. Its zero value works.
type Config struct {
	// Mode is the topology. Empty means ModeAuto.
	Mode Mode
	// Prefix begins every key. Empty means "fluxgate".
	Prefix string
	// Timeout bounds a decision, including the wait for a connection and for a
	// moved slot. 0 means 100ms.
	Timeout time.Duration
	// Shards is the number of slots of a cluster that the keys are spread over. All
	// processes must have the same number. 0 means 64. Ten for each master are enough.
	Shards int
	// Secret is mixed into the salt of the keys, so that the keys in Redis do not
	// reveal whose buckets they are. All processes must have the same secret. Empty
	// means none.
	Secret Secret
	// Refresh is how often the fleet state is read, besides after announcements of
	// resets. A heartbeat counts the processes as often. 0 means 2s.
	Refresh time.Duration
	// Gateways is the assumed number of processes until they are counted. 0 means
	// unknown, and counts as 1.
	Gateways int
	// Uncounted stores count the processes, but are not counted. It is for operator tools.
	Uncounted bool
	// TLS configures connections if the URI begins with rediss. Nil means the CA
	// certificates of the system and no client certificate.
	TLS *tls.Config
	// GetTLS returns the configuration of the next connection, instead of TLS: for
	// certificates in files that change. Nil means TLS.
	GetTLS func() (*tls.Config, error)
	// Credentials returns the current user name and password, instead of those in the URI,
	// which sentinels keep. It is called several times a second. When they change, the store
	// replaces its connections once the servers accept the new ones, without a failed call.
	// It must be safe for concurrent use. Nil means that they do not change, or those of the
	// StreamingCredentialsProvider of a client.
	Credentials func() (user, password string)
	// Pool configures the connections to each server.
	Pool Pool
	// Logger gets problems that the store handles itself. Nil means slog.Default().
	// Log lines of go-redis go to slog.Default(), at most one a second.
	// redis.SetLogger, called in main, replaces that.
	Logger *slog.Logger

	// clock is the time for tests. Nil means the server's.
	clock func() int64
}

// Secret is bytes that no log and no error shows.
type Secret = secret.Bytes

// Pool sets the number of connections to one server. Callers share calls, so few
// are needed. 0 means the default of the client or go-redis.
type Pool struct {
	// Size is the maximum number of connections, at least 24: the store and the probe
	// of a server that does not answer need as many.
	Size int
	// MaxIdle is the maximum number of idle connections, at least 16: the maximum of
	// concurrent calls. MinIdle is the minimum.
	MaxIdle, MinIdle int
}

func (p Pool) apply(options *redis.Options) {
	options.PoolSize = cmp.Or(p.Size, options.PoolSize)
	options.MaxIdleConns = cmp.Or(p.MaxIdle, options.MaxIdleConns)
	options.MinIdleConns = cmp.Or(p.MinIdle, options.MinIdleConns)
}

// maxShards keeps the search for tags and the tables small.
const maxShards = 4_096

func (c Config) withDefaults() (Config, error) {
	c.Mode = cmp.Or(c.Mode, ModeAuto)
	c.Prefix = cmp.Or(c.Prefix, "fluxgate")
	c.Timeout = cmp.Or(c.Timeout, 100*time.Millisecond)
	c.Shards = cmp.Or(c.Shards, 64)
	c.Refresh = cmp.Or(c.Refresh, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	switch c.Mode {
	case ModeAuto, ModeStandalone, ModeSentinel, ModeCluster:
	default:
		return c, fmt.Errorf("unknown mode %q: use auto, standalone, sentinel or cluster", c.Mode)
	}
	switch {
	case strings.ContainsAny(c.Prefix, "{}") || len(c.Prefix) > 64:
		return c, errors.New("a prefix must have at most 64 bytes and no braces")
	case c.Timeout < time.Millisecond:
		return c, fmt.Errorf("the timeout must be at least 1ms, not %v", c.Timeout)
	case len(c.Secret) > 0 && len(c.Secret) < 16:
		return c, errors.New("a secret must have at least 16 bytes: a short one can be guessed from its check value")
	case c.Shards < 1 || c.Shards > maxShards:
		return c, fmt.Errorf("there must be 1 to %d shards, not %d", maxShards, c.Shards)
	case c.Gateways < 0:
		return c, errors.New("Gateways must not be negative")
	case c.Pool.Size < 0 || c.Pool.MaxIdle < 0 || c.Pool.MinIdle < 0:
		return c, errors.New("pool sizes must not be negative")
	case c.Refresh < 10*time.Millisecond:
		return c, fmt.Errorf("the refresh interval must be at least 10ms, not %v", c.Refresh)
	}
	return c, nil
}
