package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// target is the addresses of the servers and how to connect to them.
type target struct {
	mode  Mode // ModeAuto if the servers must be queried
	addrs []string
	// connect makes a client of one node, without retries.
	connect func(addr string, config Config) *redis.Client
	// client is set if a client finds the master itself, and dials then knows it.
	client *redis.Client
	dials  *dials
	// secrets must not be in any error, nor the current password.
	secrets     []string
	credentials func() (user, password string) // nil if they do not change
	// provider is that of a user's client, or nil.
	provider auth.StreamingCredentialsProvider
}

// clean removes secrets from an error. Errors of drivers and servers may
// contain them.
func (t target) clean(err error) error {
	if err == nil {
		return nil
	}
	text, secrets := err.Error(), t.secrets
	if t.credentials != nil {
		_, password := t.credentials()
		secrets = append(slices.Clip(secrets), password)
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, secret.Hidden)
		}
	}
	if text == err.Error() {
		return err
	}
	return &cleanError{text: text, err: err}
}

// cleanError is an error whose text had a secret in it. It can be tested with
// [errors.Is]; the original error cannot be unwrapped and printed.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }

func (e *cleanError) Is(target error) bool { return errors.Is(e.err, target) }

// targetOf reads the options of a user's client.
func targetOf(client redis.UniversalClient) (target, error) {
	switch c := client.(type) {
	case *redis.Client:
		options := *c.Options()
		t := serverTarget(options, []string{options.Addr})
		if options.Addr == failoverAddr {
			t = failoverTarget(c, options, nil)
		}
		t.provider = options.StreamingCredentialsProvider
		return t, nil
	case *redis.ClusterClient:
		options := c.Options()
		return target{
			mode: ModeCluster, addrs: options.Addrs, secrets: []string{options.Password}, provider: options.StreamingCredentialsProvider,
			connect: func(addr string, config Config) *redis.Client { return connect(nodeOptions(options), addr, config) },
		}, nil
	}
	return target{}, fmt.Errorf("cannot use a %T: use *redis.Client or *redis.ClusterClient", client)
}

// failoverAddr is what go-redis calls the address of a client that asks
// Sentinel where the master is.
const failoverAddr = "FailoverClient"

// failoverTarget is the master that a client finds, with options for the connections. last is
// called when they are closed, and may be nil.
func failoverTarget(client *redis.Client, options redis.Options, last func() error) target {
	dials := watchDials(options.Dialer, last)
	options.Dialer = dials.Dial
	return target{
		mode: ModeSentinel, addrs: []string{failoverAddr}, secrets: []string{options.Password}, client: client, dials: dials,
		connect: func(addr string, config Config) *redis.Client { return connect(options, addr, config) },
	}
}

// address is the address of a node for messages.
func (t target) address(q *nodeQueue) string {
	if t.dials != nil {
		return cmp.Or(t.dials.address(), q.addr)
	}
	return q.addr
}

// connect returns a client that sends every call once and honours the deadline
// of its context.
func connect(options redis.Options, addr string, config Config) *redis.Client {
	options.Addr = addr
	config.Pool.apply(&options)
	if config.Credentials != nil { // a client keeps its credentials: see renew
		options.Username, options.Password = config.Credentials()
		options.CredentialsProvider, options.CredentialsProviderContext, options.StreamingCredentialsProvider = nil, nil, nil
	}
	// go-redis goes on dialing after the call has ended and the client is closed.
	if longest := max(config.Timeout, time.Second); options.DialTimeout == 0 || options.DialTimeout > longest {
		options.DialTimeout = longest
	}
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.ContextTimeoutEnabled = true
	// Its own: a client writes to the configuration when the server refuses
	// maintenance notifications, and a copy of the user's options shares it.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.PoolSize = max(options.PoolSize, mostCalls+4+eagerCalls) - eagerCalls // which a probe opens
	options.MaxActiveConns = options.PoolSize                                     // go-redis does not bound those that it opens
	if options.MaxIdleConns > 0 {
		options.MaxIdleConns = max(options.MaxIdleConns, mostCalls) // or calls open and close connections all the time
	}
	dial := options.Dialer
	if dial == nil {
		dial = redis.NewDialer(&options)
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return readLate(conn, config.Timeout), nil
	}
	return redis.NewClient(&options)
}

// nodeOptions are a cluster client's options for one of its nodes.
func nodeOptions(c *redis.ClusterOptions) redis.Options {
	return redis.Options{
		ClientName: c.ClientName, Dialer: c.Dialer, OnConnect: c.OnConnect, Protocol: c.Protocol,
		Username: c.Username, Password: c.Password, CredentialsProvider: c.CredentialsProvider,
		CredentialsProviderContext:   c.CredentialsProviderContext,
		StreamingCredentialsProvider: c.StreamingCredentialsProvider,
		DialTimeout:                  c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		PoolFIFO: c.PoolFIFO, PoolSize: c.PoolSize, PoolTimeout: c.PoolTimeout,
		MinIdleConns: c.MinIdleConns, MaxIdleConns: c.MaxIdleConns, MaxActiveConns: c.MaxActiveConns,
		ConnMaxIdleTime: c.ConnMaxIdleTime, ConnMaxLifetime: c.ConnMaxLifetime,
		ReadBufferSize: c.ReadBufferSize, WriteBufferSize: c.WriteBufferSize, TLSConfig: c.TLSConfig,
		DisableIdentity: c.DisableIdentity, IdentitySuffix: c.IdentitySuffix,
	}
}
