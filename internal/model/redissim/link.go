package redissim

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Trip is how commands that are sent at once travel to a server, and their answers back.
type Trip struct {
	There, Back time.Duration
	// Lost commands do not arrive, and Dumb ones have no answers.
	Lost, Dumb bool
	// Refused calls of the script are answered that there is no memory.
	Refused bool
}

// Link is the network between a gateway and the servers.
type Link struct {
	servers *Servers
	gateway int
	// trip is how commands travel that are sent now.
	trip func(node int) Trip
	// cut reports whether there is no connection now.
	cut func() bool

	mu    sync.Mutex
	conns []*conn
	ended bool
}

// Link returns the network of a gateway.
func (s *Servers) Link(gateway int, trip func(node int) Trip, cut func() bool) *Link {
	return &Link{servers: s, gateway: gateway, trip: trip, cut: cut}
}

// Dial opens a connection.
func (l *Link) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := l.servers.nodeAt(addr)
	if n == nil {
		return nil, errNoServer
	}
	t := l.trip(n.number)
	timer := time.NewTimer(t.There + t.Back)
	defer timer.Stop()
	arrived := timer.C
	if t.Lost || t.Dumb {
		arrived = nil
	}
	select {
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	case <-arrived:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.cut() {
		return nil, errNoServer
	}
	c := newConn(l, n)
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *Link) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other *conn) bool { return other == c })
}

// Reset ends all connections. Commands that have not arrived yet are lost.
func (l *Link) Reset() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		c.fail(errReset)
	}
}

// End ends the network: the gateway was killed.
func (l *Link) End() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.Reset()
}

// send lets commands travel to the server of a connection, run there, and their answers travel back.
func (l *Link) send(c *conn, commands [][]string) {
	t, now := l.trip(c.node.number), time.Now()
	calls := l.servers.calls(l.gateway, commands)
	if t.Lost {
		for _, call := range calls {
			call.Lost = true
		}
		return
	}
	c.mu.Lock()
	c.there = later(now.Add(t.There), c.there)
	arrives := c.there
	c.mu.Unlock()
	var run func()
	run = func() {
		if wait := l.servers.stalls(); wait > 0 { // all that has arrived meanwhile runs then
			time.AfterFunc(wait, run)
			return
		}
		c.mu.Lock()
		reset := errors.Is(c.err, errReset)
		c.mu.Unlock()
		if reset {
			for _, call := range calls {
				call.Lost = true
			}
			return
		}
		answers := l.servers.run(c, commands, calls, t.Refused)
		if t.Dumb {
			return
		}
		c.mu.Lock()
		c.here = later(time.Now().Add(t.Back), c.here)
		back := time.Until(c.here)
		c.mu.Unlock()
		time.AfterFunc(back, func() {
			if c.deliver(answers) {
				for _, call := range calls {
					call.Answered = true
				}
			}
		})
	}
	time.AfterFunc(time.Until(arrives), run)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.Add(time.Nanosecond)
	}
	return a
}
