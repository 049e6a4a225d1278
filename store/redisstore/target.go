package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
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
	// close ends what connect shares.
	close func() error
	// client is set if a client finds the master itself.
	client *redis.Client
	// master is the address that the client last found.
	master *atomic.Pointer[string]
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
		options := c.Options()
		t := target{
			mode: ModeAuto, addrs: []string{options.Addr}, secrets: []string{options.Password}, provider: options.StreamingCredentialsProvider,
			connect: func(addr string, config Config) *redis.Client { return connect(*options, addr, config) },
		}
		if options.Addr == failoverAddr {
			t.mode, t.client = ModeSentinel, c
			own := *options
			dials := watchDials(own.Dialer, nil)
			own.Dialer, t.close = dials.Dial, dials.close
			t.master = rememberMaster(&own)
			t.connect = func(addr string, config Config) *redis.Client { return connect(own, addr, config) }
		}
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

// rememberMaster keeps the address that a dialer connects to: with Sentinel
// only the dialer knows it.
func rememberMaster(options *redis.Options) *atomic.Pointer[string] {
	master, dial := new(atomic.Pointer[string]), options.Dialer
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			found := conn.RemoteAddr().String()
			master.Store(&found)
		}
		return conn, err
	}
	return master
}

// address is the address of a node for messages.
func (t target) address(q *nodeQueue) string {
	if t.master != nil {
		if found := t.master.Load(); found != nil {
			return *found
		}
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
