package xdsrules

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/tlsfiles"
)

// Config configures a [Source]. Server is required.
type Config struct {
	// Server is the address of the xDS server, as host:port.
	Server string
	// NodeID is the name under which the server keeps the configuration. Envoy Gateway
	// expects envoy-ratelimit.
	NodeID string
	// NodeMetadata is sent with the node id.
	NodeMetadata map[string]string
	// TLS is nil for connections without encryption.
	TLS *TLS
	// MaxMessage bounds a response, in bytes. 0 means 16 MiB.
	MaxMessage int
	// Logger gets a line for each change of the configuration and of the connection. Nil
	// means slog.Default().
	Logger *slog.Logger

	// pause waits. Tests replace it.
	pause func(context.Context, time.Duration) error
}

// TLS are the files of the connection's certificates as PEM. They are read for each
// connection, so that replaced files take effect.
type TLS struct {
	// CAFile has the CA certificates that verify the server. Empty means those of the
	// system.
	CAFile string
	// CertFile and KeyFile are the client certificate. Empty means none.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate. Empty means the host of Server.
	ServerName string
}

const (
	// connectTimeout bounds an attempt to connect.
	connectTimeout = 5 * time.Second
	// minPause and maxPause are the pauses between attempts, half as long to half longer.
	minPause, maxPause = 500 * time.Millisecond, 30 * time.Second
	// minRefusePause and maxRefusePause are the pauses before a response is refused again.
	minRefusePause, maxRefusePause = time.Second, 10 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		return c, errors.New("the address of the xDS server must be of the form host:port")
	}
	if c.MaxMessage < 0 {
		return c, errors.New("MaxMessage must not be negative")
	}
	c.MaxMessage = cmp.Or(c.MaxMessage, 16<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.pause == nil {
		c.pause = background.Sleep
	}
	return c, nil
}

// dial returns a connection, which is not made yet.
func (c *Config) dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if c.TLS != nil {
		config, err := c.TLS.load()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	return grpc.NewClient(c.Server,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		// Servers refuse pings that come more often than every 5 minutes unless they are
		// configured otherwise. TCP notices a peer that is gone within a minute.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
		grpc.WithContextDialer(dialTCP),
	)
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 10 * time.Second, Count: 3}}
	return d.DialContext(ctx, "tcp", addr)
}

func (t *TLS) load() (*tls.Config, error) {
	config, err := tlsfiles.Client(t.CAFile, t.CertFile, t.KeyFile)
	if err == nil {
		config.ServerName = t.ServerName
	}
	return config, err
}
