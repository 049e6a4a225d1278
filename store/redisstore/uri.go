package redisstore

import (
	"cmp"
	"crypto/tls"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/redisuri"
	"github.com/redis/go-redis/v9"
)

// parseURI parses the addresses of the servers. Its errors never show the URI, which may hold a
// password.
func parseURI(text string, config Config) (target, error) {
	uri, err := redisuri.Parse(text)
	if err != nil {
		return target{}, fmt.Errorf("the Redis URI %w", err)
	}
	user, password := uri.Login()
	options := redis.Options{
		Username: user, Password: password, CredentialsProvider: config.Credentials,
		// Nothing but our own commands, so that the smallest ACL is enough.
		DisableIdentity: true,
	}
	if uri.IsTLS() {
		options.TLSConfig = cmp.Or(config.TLS, &tls.Config{MinVersion: tls.VersionTLS12})
		if config.GetTLS != nil {
			options.Dialer = dialTLS(config)
		}
	}
	if uri.IsSentinel() {
		return sentinelTarget(options, uri.Addrs(), uri.Path), nil
	}
	options.DB = uri.Database()
	return serverTarget(options, uri.Addrs()), nil
}

// serverTarget is one server, or the seeds of a cluster.
func serverTarget(options redis.Options, addrs []string) target {
	t := target{
		mode: ModeAuto, addrs: addrs, secrets: []string{options.Password},
		connect: func(addr string, config Config) *redis.Client { return connect(options, addr, config) },
	}
	if len(addrs) > 1 {
		t.mode = ModeCluster
	}
	return t
}

// sentinelTarget is a master that Sentinel knows by name.
func sentinelTarget(options redis.Options, addrs []string, master string) target {
	finder := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: master, SentinelAddrs: addrs,
		Username: options.Username, Password: options.Password, CredentialsProvider: options.CredentialsProvider,
		SentinelUsername: options.Username, SentinelPassword: options.Password,
		TLSConfig: options.TLSConfig, Dialer: options.Dialer, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	own := *finder.Options()
	own.DisableIdentity = true
	return failoverTarget(finder, own, finder.Close)
}
