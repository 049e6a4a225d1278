package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// maxAdminConnections bounds the connections of the admin listener, which has its own
// bound so that it answers while the check API has too many clients.
const maxAdminConnections = 256

// connectionLimit returns the maximum number of connections of a listener. It is
// lower than configured if the process may open few files: connections use half of
// them at most, those of the admin listener an eighth.
func (e *edge) connectionLimit(name string) int {
	files := maxOpenFiles()
	if name == "admin" || name == "metrics" {
		return min(maxAdminConnections, max(1, files/8))
	}
	limit := min(e.config.MaxConnections, max(1, files/2))
	if limit < e.config.MaxConnections {
		e.log.Warn("server.max-connections is lowered to half of the files that the process may open; raise that (ulimit -n, LimitNOFILE)",
			"maxConnections", limit, "configured", e.config.MaxConnections, "maxOpenFiles", files)
	}
	return limit
}

// limitListener bounds the connections of a listener. Up to limit connections are
// served. Some more are accepted and marked: they get probes answered and 503 to
// other requests. For each one beyond these the oldest of them is closed, so that
// probes are answered however many connections others keep open.
type limitListener struct {
	net.Listener
	name  string
	limit int
	log   *slog.Logger

	slots             chan struct{} // has one element for each connection
	closing           sync.Once
	closed            chan struct{}
	open              atomic.Int64
	overLimit, failed atomic.Uint64

	mu   sync.Mutex
	over list.List // of *limitedConn: those over the limit, the oldest first

	// overLog and failLog throttle log lines: clients cause them.
	overLog, failLog *logthrottle.Throttle
}

func newLimitListener(l net.Listener, name string, limit int, log *slog.Logger) *limitListener {
	return &limitListener{
		Listener: l, name: name, limit: limit, log: log,
		slots: make(chan struct{}, limit+min(64, max(8, limit/8))), closed: make(chan struct{}),
		overLog: logthrottle.New(10 * time.Second), failLog: logthrottle.New(10 * time.Second),
	}
}

// Accept implements [net.Listener].
func (l *limitListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			l.failed.Add(1)
			l.failLog.Log(context.Background(), l.log, slog.LevelError, "cannot accept connections: clients wait",
				"listener", l.name, "error", err)
		}
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
	default:
		l.closeOldest()
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
	c := &limitedConn{Conn: conn, listener: l}
	if l.open.Add(1) > int64(l.limit) {
		l.mu.Lock()
		c.overLimit = l.over.PushBack(c)
		l.mu.Unlock()
		l.overLimit.Add(1)
		l.overLog.Log(context.Background(), l.log, slog.LevelError, "too many connections: requests on new connections get 503",
			"listener", l.name, "limit", l.limit)
	}
	return c, nil
}

// closeOldest closes the oldest connection over the limit. It has had time for the one request
// that such a connection gets answered.
func (l *limitListener) closeOldest() {
	l.mu.Lock()
	oldest := l.over.Front()
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Value.(*limitedConn).Close()
	}
}

// Close implements [net.Listener].
func (l *limitListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn is a connection of a limitListener.
type limitedConn struct {
	net.Conn
	listener  *limitListener
	overLimit *list.Element // its place if it was over the limit when it was accepted
	closing   sync.Once
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		l := c.listener
		if c.overLimit != nil {
			l.mu.Lock()
			l.over.Remove(c.overLimit)
			l.mu.Unlock()
		}
		l.open.Add(-1)
		<-l.slots
	})
	return err
}

// CloseWrite ends the stream to the client. net/http calls it so that the client can
// read an answer before the connection is reset.
func (c *limitedConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return nil
}

type overLimitKey struct{}

// connContext returns the context of the requests of a connection. Those of one over the
// limit are marked.
func (l *listener) connContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // to close it takes no time
	}
	ctx = l.unsent.ConnContext(ctx, conn)
	if c, ok := conn.(*limitedConn); ok && c.overLimit != nil {
		return context.WithValue(ctx, overLimitKey{}, true)
	}
	return ctx
}

// maxUnsent bounds the memory of the answers of a listener that clients do not read.
const maxUnsent = 32 << 20
