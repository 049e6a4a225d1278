// Package backend opens what a configuration names, Redis and the rule source, for a
// server, for operators and for doctor.
package backend

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

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
	uri, tlsConfig, err := redisTarget(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return redisstore.NewClient(ctx, uri, redisstore.Config{Mode: redisstore.Mode(c.Mode), TLS: tlsConfig})
}

// redisTarget returns where Redis is, and the settings of TLS, nil without.
func redisTarget(c *config.Redis) (uri string, tlsConfig *tls.Config, err error) {
	target, err := c.Target()
	if err != nil {
		return "", nil, err
	}
	tlsConfig, err = redisTLS(&c.TLS)
	return string(target), tlsConfig, err
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
	uri, tlsConfig, err := redisTarget(c)
	if err != nil {
		return nil, err
	}
	assumed, _ := AssumedServers(conf)
	return redisstore.Open(ctx, uri, redisstore.Config{
		Gateways:  assumed,
		Uncounted: !counted,
		Mode:      redisstore.Mode(c.Mode),
		Prefix:    c.Prefix,
		Timeout:   c.Timeout,
		Shards:    c.Shards,
		Secret:    secret,
		TLS:       tlsConfig,
		Logger:    log,
		Pool:      redisstore.Pool{Size: c.Pool.MaxTotal, MaxIdle: c.Pool.MaxIdle, MinIdle: c.Pool.MinIdle},
	})
}

// redisTLS returns the certificates of connections to Redis, nil for the defaults.
func redisTLS(c *config.RedisTLS) (*tls.Config, error) {
	if *c == (config.RedisTLS{}) {
		return nil, nil //nolint:nilnil // no configuration is no error
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := config.ReadCA(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading redis.tls.ca-file: %w", err)
		}
		t.RootCAs = pool
	}
	if c.CertFile != "" {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &pair, err
		}
	}
	return t, nil
}
