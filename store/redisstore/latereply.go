package redisstore

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// lateConn is a connection of a process that may get too little processor time. At its
// deadline it reads a reply that has arrived and was not read yet.
type lateConn struct {
	net.Conn
	timeout  time.Duration
	deadline atomic.Int64 // of reads
	written  atomic.Int64 // when a request was last written
}

func readLate(conn net.Conn, timeout time.Duration) net.Conn {
	return likeSocket(&lateConn{Conn: conn, timeout: timeout}, conn)
}

// ownDelay is a timeout of a process that was too busy: the call was not sent in time, or it
// noticed the deadline late and has no answer yet.
type ownDelay struct{ error }

// Is implements the interface of [errors.Is]. go-redis unwraps errors of new connections, so
// there is no Unwrap.
func (d ownDelay) Is(target error) bool { return errors.Is(d.error, target) }

// Timeout and Temporary implement [net.Error].
func (ownDelay) Timeout() bool   { return true }
func (ownDelay) Temporary() bool { return true }

// SetReadDeadline implements [net.Conn].
func (c *lateConn) SetReadDeadline(t time.Time) error {
	c.deadline.Store(t.UnixNano())
	return c.Conn.SetReadDeadline(t)
}

// Write implements [net.Conn].
func (c *lateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Store(time.Now().UnixNano())
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ownDelay{err}
	}
	return n, err
}

// Read implements [net.Conn]. If the process noticed its deadline late, the server gets the
// same time in addition: the whole machine may have been busy.
func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	now := time.Now()
	late := now.Sub(time.Unix(0, c.deadline.Load()))
	if c.Conn.SetReadDeadline(now.Add(min(c.timeout/20+late, c.timeout/2))) == nil {
		if n, _ := c.Conn.Read(p); n > 0 {
			return n, nil
		}
	}
	if late > c.timeout/noticedLate || time.Since(time.Unix(0, c.written.Load())) < c.timeout/2 {
		return 0, ownDelay{err}
	}
	return 0, err
}
