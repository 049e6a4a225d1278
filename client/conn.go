package client

import (
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
	// dialTimeout bounds making a connection, which goes on for the next
	// request when the one it was for has run out of time.
	dialTimeout = 3 * time.Second
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
)

// newTransport makes a pool of connections of our own.
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
		Protocols:              protocols, // one request on a connection: what was sent of it can be counted
	}
}

// secured makes connections over TLS. It is ours so that what is counted is
// what is sent inside: TLS says goodbye by itself when it is closed.
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
		own.NextProtos = []string{"http/1.1"} // what we speak
		if own.ServerName == "" {
			own.ServerName = host
		}
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

// connection counts what is sent, so that a request that failed is known not
// to have been sent, and looks before it is used again: the server may have
// closed it while it was idle.
type connection struct {
	net.Conn
	raw  syscall.RawConn // nil where nobody can look
	sent atomic.Int64
	look atomic.Bool // before the next write
}

// watch watches a connection that may be inside another.
func watch(conn, outer net.Conn) *connection {
	c := &connection{Conn: conn}
	if s, ok := outer.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn()
	}
	return c
}

// errClosed is why nothing was sent.
var errClosed = errors.New("the server has closed the connection")

// Write sends, unless the server has closed a connection that was idle. A
// server says nothing unasked, so anything to be read is its goodbye.
func (c *connection) Write(b []byte) (int, error) {
	if c.look.Swap(false) && c.raw != nil && readable(c.raw) {
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

// begin is told which connection a request was given.
func (u *use) begin(info httptrace.GotConnInfo) {
	u.conn, _ = info.Conn.(*connection)
	if u.conn == nil {
		return
	}
	u.before, u.reused = u.conn.sent.Load(), info.Reused
	u.conn.look.Store(info.Reused)
}

// unsent reports whether a request that failed can be sent on another
// connection, because nothing of it was sent on this one, which was used
// before. When a request has failed its connection is no longer written to.
func (u *use) unsent() bool {
	return u.conn != nil && u.reused && u.conn.sent.Load() == u.before
}
