// Package backend opens what a configuration names, Redis and the rule source, for a
// server, for operators and for doctor.
package backend

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/redisuri"
	"github.com/fluxgate/fluxgate/internal/tlsfiles"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// OpenTimeout bounds an attempt to open the store.
const OpenTimeout = 5 * time.Second

// RedisCredentials returns the credentials of Redis if they are in files, or nil. All
// connections of a server share them: only the store asks for them all the time.
func RedisCredentials(c *config.Redis, log *slog.Logger) (Credentials, error) {
	if !c.Enabled || c.PasswordFile == "" {
		return nil, nil //nolint:nilnil // no file is no error
	}
	uri, err := redisuri.Parse(string(c.URI))
	if err != nil {
		return nil, fmt.Errorf("redis.uri %w", err)
	}
	user, _ := uri.Login()
	return (&credentials{below: "redis", user: user, userFile: c.UsernameFile, passwordFile: c.PasswordFile, log: log}).open()
}

// OpenRedis returns a client for data in Redis other than buckets, nil without Redis.
func OpenRedis(ctx context.Context, c *config.Redis, login Credentials, log *slog.Logger) (redis.UniversalClient, error) {
	if !c.Enabled {
		return nil, nil //nolint:nilnil // no Redis is no error
	}
	uri, options, err := redisOptions(c, login, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return redisstore.NewClient(ctx, uri, options)
}

// redisOptions returns where Redis is, and how to connect.
func redisOptions(c *config.Redis, login Credentials, log *slog.Logger) (uri string, options redisstore.Config, err error) {
	options = redisstore.Config{Mode: redisstore.Mode(c.Mode), Credentials: login, Logger: log}
	if c.TLS != (config.RedisTLS{}) {
		if options.GetTLS, err = (&tlsFiles{RedisTLS: c.TLS, log: log}).open(); err != nil {
			return "", options, err
		}
	}
	target, err := c.Target()
	return string(target), options, err
}

// OpenStore opens the buckets in Redis. Redis counts servers, but not operator tools.
func OpenStore(
	ctx context.Context, conf *config.Config, login Credentials, counted bool, log *slog.Logger,
) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	c := &conf.Redis
	secret, err := config.ReadSecret(c.KeySecretFile)
	if err != nil {
		return nil, err
	}
	uri, options, err := redisOptions(c, login, log)
	if err != nil {
		return nil, err
	}
	options.Gateways, _ = AssumedServers(conf)
	options.Uncounted, options.Prefix, options.Timeout = !counted, c.Prefix, c.Timeout
	options.Shards, options.Secret = c.Shards, secret
	options.Pool = redisstore.Pool{Size: c.Pool.MaxTotal, MaxIdle: c.Pool.MaxIdle, MinIdle: min(c.Pool.MinIdle, c.Pool.MaxIdle)}
	return redisstore.Open(ctx, uri, options)
}

// tlsFiles are the certificates of connections to Redis. Files that cannot be read keep their
// last content.
type tlsFiles struct {
	config.RedisTLS
	log    *slog.Logger
	failed *logthrottle.Throttle
	last   atomic.Pointer[tls.Config]
}

// open reads the files for the first time.
func (f *tlsFiles) open() (current func() (*tls.Config, error), err error) {
	f.failed = logthrottle.New(time.Minute)
	first, err := f.load()
	f.last.Store(first)
	return f.current, err
}

func (f *tlsFiles) current() (*tls.Config, error) {
	now, err := f.load()
	if err == nil {
		f.last.Store(now)
	} else {
		f.failed.Log(context.Background(), f.log, slog.LevelError, "cannot read certificates: the last ones stay in use", "error", err)
	}
	return f.last.Load(), nil
}

func (f *tlsFiles) load() (*tls.Config, error) {
	return tlsfiles.Client(f.CAFile, f.CertFile, f.KeyFile)
}
