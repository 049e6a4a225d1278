package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds dialing, which continues for the next request after
	// the timeout of the first one.
	dialTimeout = 3 * time.Second
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
)

// newTransport returns a connection pool.
func newTransport(config *Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return watch(conn, conn), nil
		},
		DialTLSContext:         secured(dialer, config.TLS),
		MaxIdleConns:           config.MaxConns,
		MaxIdleConnsPerHost:    config.MaxConns,
		MaxConnsPerHost:        config.MaxConns,
		IdleConnTimeout:        config.IdleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		Protocols:              protocols, // one request at a time, so that its bytes can be counted
	}
}

// secured dials with TLS. The transport's own would count the bytes outside TLS,
// which include a close notification.
func secured(dialer *net.Dialer, config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	if config == nil {
		config = new(tls.Config)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.NextProtos = []string{"http/1.1"}
		own.ServerName = cmp.Or(own.ServerName, host)
		conn := tls.Client(raw, own)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return watch(conn, raw), nil
	}
}

// connection counts the bytes that are sent, to know whether a failed request was
// sent, and checks before its next use whether the server has closed it.
type connection struct {
	net.Conn
	raw   syscall.RawConn // nil if it cannot be checked
	sent  atomic.Int64
	check atomic.Bool // before the next write
}

// watch returns a connection that is counted, inside an outer one.
func watch(conn, outer net.Conn) *connection {
	c := &connection{Conn: conn}
	if s, ok := outer.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn()
	}
	return c
}

var errClosed = errors.New("the server has closed the connection")

// Write sends, unless the server has closed the idle connection: a server sends
// nothing before a request, so readable data means that it closed.
func (c *connection) Write(b []byte) (int, error) {
	if c.check.Swap(false) && c.raw != nil && readable(c.raw) {
		return 0, errClosed
	}
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// use is the use of one connection for one request.
type use struct {
	conn   *connection
	before int64
	reused bool
}

// begin records the connection of a request.
func (u *use) begin(info httptrace.GotConnInfo) {
	u.conn, _ = info.Conn.(*connection)
	if u.conn == nil {
		return
	}
	u.before, u.reused = u.conn.sent.Load(), info.Reused
	u.conn.check.Store(info.Reused)
}

// unsent reports whether a failed request can be sent on another connection: no
// byte of it was sent on this reused one. A connection is not written to after
// its request has failed.
func (u *use) unsent() bool {
	return u.conn != nil && u.reused && u.conn.sent.Load() == u.before
}
