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
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// OpenTimeout bounds an attempt to open the store.
const OpenTimeout = 5 * time.Second

// OpenRedis returns a client for data in Redis other than buckets, nil without Redis.
func OpenRedis(ctx context.Context, c *config.Redis) (redis.UniversalClient, error) {
	if !c.Enabled {
		return nil, nil //nolint:nilnil // no Redis is no error
	}
	uri, options, err := redisOptions(c, slog.New(slog.DiscardHandler)) // the store logs
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return redisstore.NewClient(ctx, uri, options)
}

// redisOptions returns where Redis is, and how to connect.
func redisOptions(c *config.Redis, log *slog.Logger) (uri string, options redisstore.Config, err error) {
	target, err := c.Target()
	if err != nil {
		return "", options, err
	}
	parsed, err := redisuri.Parse(string(target))
	if err != nil {
		return "", options, err
	}
	options = redisstore.Config{Mode: redisstore.Mode(c.Mode), Logger: log}
	user, _ := parsed.Login()
	files := &credentials{below: "redis", user: user, userFile: c.UsernameFile, passwordFile: c.PasswordFile, log: log}
	if options.Credentials, err = files.open(); err != nil || c.TLS == (config.RedisTLS{}) {
		return string(target), options, err
	}
	options.GetTLS, err = (&tlsFiles{RedisTLS: c.TLS, log: log}).open()
	return string(target), options, err
}

// OpenStore opens the buckets in Redis. Redis counts servers, but not operator tools.
func OpenStore(ctx context.Context, conf *config.Config, counted bool, log *slog.Logger) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	c := &conf.Redis
	secret, err := config.ReadSecret(c.KeySecretFile)
	if err != nil {
		return nil, err
	}
	uri, options, err := redisOptions(c, log)
	if err != nil {
		return nil, err
	}
	options.Gateways, _ = AssumedServers(conf)
	options.Uncounted, options.Prefix, options.Timeout = !counted, c.Prefix, c.Timeout
	options.Shards, options.Secret = c.Shards, secret
	options.Pool = redisstore.Pool{Size: c.Pool.MaxTotal, MaxIdle: c.Pool.MaxIdle, MinIdle: c.Pool.MinIdle}
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
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		pool, err := config.ReadCA(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading redis.tls.ca-file: %w", err)
		}
		t.RootCAs = pool
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading redis.tls.cert-file and its key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
