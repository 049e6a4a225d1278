package redissim

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// conn is a connection to a server, as its client has it. What it sends runs when it arrives, and what the server
// answers is there when that has arrived: neither needs a goroutine.
type conn struct {
	link *Link
	node *node

	mu       sync.Mutex
	wake     *sync.Cond
	in       []byte // answers that have arrived
	out      []byte // the beginning of a command
	deadline time.Time
	timer    *time.Timer // of the deadline
	err      error       // why it is of no use any more
	asking   bool        // of the server
	// When the last bytes arrive there and here: none overtakes others.
	there, here time.Time
}

func newConn(l *Link, n *node) *conn {
	c := &conn{link: l, node: n}
	c.wake = sync.NewCond(&c.mu)
	return c
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.err != nil:
			return 0, c.err
		case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		c.wake.Wait()
	}
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: c.err}
	}
	c.out = append(c.out, p...)
	var commands [][]string
	for {
		command, rest, ok := parse(c.out)
		if !ok {
			break
		}
		commands, c.out = append(commands, command), rest
	}
	c.mu.Unlock()
	if len(commands) > 0 {
		c.link.send(c, commands)
	}
	return len(p), nil
}

// Close implements [net.Conn]. What is on its way still arrives.
func (c *conn) Close() error {
	c.fail(net.ErrClosed)
	c.link.remove(c)
	return nil
}

// fail ends a connection.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.wake.Broadcast()
}

// deliver passes on what has arrived, and reports whether there is a client.
func (c *conn) deliver(answer []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return false
	}
	c.in = append(c.in, answer...)
	c.wake.Broadcast()
	return true
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn]. A write takes no time.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !t.IsZero() && c.err == nil {
		c.timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wake.Broadcast()
		})
	}
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return address("client") }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return address(c.node.addr) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// errReset is a connection that the network has ended.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// errNoServer is a dial that no server answers.
var errNoServer = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// parse reads a command: an array of strings.
func parse(b []byte) (command []string, rest []byte, ok bool) {
	n, b, err := header(b, '*')
	for range n {
		if err != nil {
			return nil, nil, false
		}
		var size int
		if size, b, err = header(b, '$'); err != nil || len(b) < size+2 {
			return nil, nil, false
		}
		command, b = append(command, string(b[:size])), b[size+2:]
	}
	return command, b, err == nil && n > 0
}

// header reads a line that is a number.
func header(b []byte, kind byte) (n int, rest []byte, err error) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if len(line) == 0 || line[0] != kind {
		return 0, nil, errors.New("no command")
	}
	n, err = strconv.Atoi(string(line[1:]))
	return n, rest, err
}
