package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialTLS opens connections with the current certificates.
func dialTLS(config Config) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		current, err := config.GetTLS()
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return redis.NewDialer(&redis.Options{TLSConfig: current, DialTimeout: max(config.Timeout, time.Second)})(ctx, network, addr)
	}
}

// dials tracks the connections of a client that finds the master through
// Sentinel.
//
// A master that was replaced accepts writes for about a second until Sentinel
// demotes it. Using both would hand out tokens twice, so the first connection
// to a new master closes those to the old one.
//
// A dial that is in progress when the client is closed would subscribe to
// Sentinel again, and that subscription would never end.
type dials struct {
	dial dialer
	// last is called when the store is closed and no dial is in progress. It
	// may be nil.
	last func() error

	life context.Context // of the dials
	end  context.CancelFunc

	mu       sync.Mutex
	underWay int
	turn     uint64 // of the latest dial
	master   string // where the latest dials lead
	since    uint64 // the turn of the first that led there
	open     map[*watchedConn]struct{}
}

func watchDials(dial dialer, last func() error) *dials {
	d := &dials{dial: dial, last: last, open: map[*watchedConn]struct{}{}}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// Dial opens a connection, unless dials is closed.
func (d *dials) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	if d.life.Err() != nil {
		d.mu.Unlock()
		return nil, redis.ErrClosed
	}
	d.underWay++
	d.turn++
	turn := d.turn
	d.mu.Unlock()
	defer func() { _ = d.done() }() // no caller is left for the error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	conn, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return d.watch(conn, turn)
}

// errDemoted is returned for a dial that ended after one to a newer master.
var errDemoted = errors.New("the server is no longer the master")

// watch closes the connections to a former master.
func (d *dials) watch(conn net.Conn, turn uint64) (net.Conn, error) {
	w := &watchedConn{Conn: conn, dials: d}
	to := conn.RemoteAddr().String()
	var stale []*watchedConn
	d.mu.Lock()
	switch {
	case to != d.master && turn < d.since:
		d.mu.Unlock()
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: errDemoted}
	case to != d.master:
		for other := range d.open {
			if other.RemoteAddr().String() != to {
				stale = append(stale, other)
			}
		}
		d.master, d.since = to, turn
	}
	d.open[w] = struct{}{}
	d.mu.Unlock()
	for _, other := range stale {
		_ = other.Close()
	}
	return likeSocket(w, conn), nil
}

// watchedConn is a connection that is tracked until it is closed.
type watchedConn struct {
	net.Conn
	dials *dials
}

// Close implements [net.Conn].
func (c *watchedConn) Close() error {
	c.dials.mu.Lock()
	delete(c.dials.open, c)
	c.dials.mu.Unlock()
	return c.Conn.Close()
}

// likeSocket returns a connection that wraps another, with its SyscallConn if that is a
// socket: go-redis checks idle ones.
func likeSocket(c, wrapped net.Conn) net.Conn {
	if s, ok := wrapped.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return struct {
				net.Conn
				socket
			}{c, socket{raw}}
		}
	}
	return c
}

// socket returns the same value each time: go-redis asks for it with every call.
type socket struct{ raw syscall.RawConn }

// SyscallConn implements [syscall.Conn].
func (s socket) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// address is where the latest dials lead, empty before the first.
func (d *dials) address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.master
}

func (d *dials) done() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.underWay--; d.underWay > 0 || d.life.Err() == nil || d.last == nil {
		return nil
	}
	return d.last()
}

// close ends the dials in progress and refuses new ones.
func (d *dials) close() error {
	d.mu.Lock()
	d.underWay++ // so that none of the dials is the last
	d.mu.Unlock()
	d.end()
	return d.done()
}
