package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// NewClient returns a client of the servers that a URI names, for other data in the
// same Redis: rules, announcements. It uses Mode, TLS, GetTLS and Credentials of the config. Unlike the
// store's own connections it retries. In ModeAuto it asks the server whether it is
// part of a cluster. A server that does not answer is treated as standalone, so set
// the mode if a cluster may be unavailable at the start.
func NewClient(ctx context.Context, uri string, config Config) (redis.UniversalClient, error) {
	mode := config.Mode
	t, err := parseURI(uri, config)
	if err != nil {
		return nil, fmt.Errorf("creating a Redis client: %w", err)
	}
	if t.client != nil { // Sentinel's
		return t.client, nil
	}
	one := t.connect(t.addrs[0], Config{})
	options := *one.Options()
	options.MaxRetries = 3
	if mode == ModeAuto || mode == "" {
		mode = t.mode
	}
	if mode == ModeAuto {
		info, err := one.Info(ctx, "cluster").Result()
		if err == nil && strings.Contains(info, "cluster_enabled:1") {
			mode = ModeCluster
		}
	}
	if err := one.Close(); err != nil {
		return nil, fmt.Errorf("creating a Redis client: %w", t.clean(err))
	}
	switch mode {
	case ModeCluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.addrs, Username: options.Username, Password: options.Password, CredentialsProvider: options.CredentialsProvider,
			TLSConfig: options.TLSConfig, Dialer: options.Dialer, DisableIdentity: true, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: options.MaintNotificationsConfig,
		}), nil
	case ModeAuto, ModeStandalone:
		return redis.NewClient(&options), nil
	}
	return nil, errors.New("creating a Redis client: mode sentinel needs a redis-sentinel:// URI")
}
