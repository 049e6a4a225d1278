package testenv

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections between a client and a server with faults: it delays bytes,
// drops replies, cuts connections and refuses new ones. It does not parse the bytes, so
// TLS works too.
type Proxy struct {
	target string
	addr   string
	port   int

	toServer, toClient atomic.Int64 // latency, in nanoseconds
	swallow, truncate  atomic.Bool  // of replies
	blackhole          atomic.Bool
	accepted           atomic.Int64

	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	links    map[*link]struct{}
	wg       sync.WaitGroup
}

// StartProxy starts a proxy for target, a host and port, and stops it with the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := newProxy(target)
	if err != nil {
		tb.Fatalf("testenv: start a proxy: %v", err)
	}
	tb.Cleanup(p.stop)
	return p
}

func newProxy(target string) (*Proxy, error) {
	const attempts = 10
	var err error
	for range attempts {
		p := &Proxy{target: target, links: make(map[*link]struct{})}
		if p.port, err = reservePort(); err != nil {
			return nil, err
		}
		p.addr = loopback(p.port)
		if err = p.Accept(); err == nil {
			return p, nil
		}
		releasePort(p.port) // another process took the port
	}
	return nil, err
}

func (p *Proxy) stop() {
	p.Refuse()
	p.Cut()
	p.wg.Wait()
	releasePort(p.port)
}

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.addr }

// SetLatency delays bytes in each direction that arrive from now on. Their order is kept,
// and delays overlap: a thousand requests in flight take one latency, not a thousand.
func (p *Proxy) SetLatency(toServer, toClient time.Duration) {
	p.toServer.Store(int64(toServer))
	p.toClient.Store(int64(toClient))
}

// SwallowReplies drops, while on, what the server sends; requests are still forwarded. A
// connection that lost a reply gets no more replies, because its stream is incomplete; Cut
// ends it.
func (p *Proxy) SwallowReplies(on bool) { p.swallow.Store(on) }

// Blackhole drops, while on, the bytes of both directions, like a network that loses every
// packet. A connection that lost bytes stays silent afterwards; Cut ends it.
func (p *Proxy) Blackhole(on bool) { p.blackhole.Store(on) }

// Mute drops the bytes of both directions of the connections that are open now, like a
// firewall that has forgotten them. New connections work.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.mute.Store(true)
	}
}

// TruncateReplies forwards, while on, half of a reply and then closes the connection.
func (p *Proxy) TruncateReplies(on bool) { p.truncate.Store(on) }

// Cut resets every open connection and ends SwallowReplies: new connections work, and no
// reply that should be lost is forwarded in between.
func (p *Proxy) Cut() {
	p.mu.Lock() // no connection is accepted meanwhile
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
	clear(p.links)
	p.swallow.Store(false)
}

// Refuse refuses new connections, like a host without a server. Open ones stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Accept accepts new connections again after Refuse.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("accept connections again: %w", err)
	}
	p.listener = l
	p.wg.Go(func() { p.serve(l) })
	return nil
}

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted returns the number of connections accepted since the start.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

func (p *Proxy) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // refusing, or stopped
		}
		link := newLink(conn.(*net.TCPConn))
		p.mu.Lock()
		if p.listener != l {
			p.mu.Unlock()
			link.reset() // refused while it was being accepted
			return
		}
		p.accepted.Add(1)
		p.links[link] = struct{}{}
		p.wg.Go(func() {
			p.carry(link)
			p.mu.Lock()
			delete(p.links, link)
			p.mu.Unlock()
		})
		p.mu.Unlock()
	}
}

// carry connects the link to the server and copies both ways until both ends are closed
// or the link is cut.
func (p *Proxy) carry(l *link) {
	defer l.close()
	if err := l.dial(p.target); err != nil {
		l.reset()
		return
	}
	lose := func() bool { return p.blackhole.Load() || l.mute.Load() }
	requests := pipe{link: l, from: l.client, to: l.server, latency: &p.toServer, drop: lose, truncate: never}
	loseReply := func() bool { return lose() || p.swallow.Load() }
	replies := pipe{link: l, from: l.server, to: l.client, latency: &p.toClient, drop: loseReply, truncate: p.truncate.Load}
	var wg sync.WaitGroup
	wg.Go(requests.run)
	wg.Go(replies.run)
	wg.Wait()
}

func never() bool { return false }
