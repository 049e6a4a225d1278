package testenv

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one proxied connection: to the client and to the server.
type link struct {
	ctx    context.Context // ends when the link is cut
	cancel context.CancelFunc

	mute           atomic.Bool // drops all bytes
	mu             sync.Mutex
	client, server *net.TCPConn
}

func newLink(client *net.TCPConn) *link {
	l := &link{client: client}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *link) dial(target string) error {
	conn, err := new(net.Dialer).DialContext(l.ctx, "tcp", target)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if err := l.ctx.Err(); err != nil {
		_ = l.server.Close() // cut while we were dialling
		return err
	}
	return nil
}

// reset ends both connections at once, like a crash: unsent data is lost.
func (l *link) reset() { l.end(true) }

// close ends both connections after the kernel has sent its buffers.
func (l *link) close() { l.end(false) }

func (l *link) end(reset bool) {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c == nil {
			continue
		}
		if reset {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
}

// pipe forwards one direction of a link.
type pipe struct {
	link     *link
	from, to *net.TCPConn
	latency  *atomic.Int64
	drop     func() bool // whether to drop the bytes
	truncate func() bool // whether to forward half of the bytes and close
	queue    delayQueue
}

// run reads and writes concurrently, with the delay queue in between.
func (p *pipe) run() {
	p.queue.init()
	var wg sync.WaitGroup
	wg.Go(p.read)
	p.write()
	wg.Wait()
}

func (p *pipe) read() {
	defer p.queue.end()
	buf := make([]byte, 32<<10)
	for {
		n, err := p.from.Read(buf)
		due := time.Now().Add(time.Duration(p.latency.Load()))
		if n > 0 && !p.queue.push(chunk{data: bytes.Clone(buf[:n]), due: due}) {
			return
		}
		if err != nil {
			p.queue.push(chunk{due: due}) // the end of the stream is delayed too
			return
		}
	}
}

func (p *pipe) write() {
	defer p.queue.abandon()
	timer := time.NewTimer(0)
	defer timer.Stop()
	mute := false
	for {
		c, ok := p.queue.pop()
		if !ok {
			return
		}
		if wait := time.Until(c.due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-p.link.ctx.Done():
				return
			}
		}
		if c.data == nil {
			_ = p.to.CloseWrite()
			return
		}
		mute = mute || p.drop()
		if mute {
			continue
		}
		if p.truncate() {
			_, _ = p.to.Write(c.data[:len(c.data)/2])
			p.link.close()
			return
		}
		if _, err := p.to.Write(c.data); err != nil {
			p.link.reset()
			return
		}
	}
}

// chunk has bytes and when they are due. No bytes mean the end.
type chunk struct {
	data []byte
	due  time.Time
}

// delayQueue has the bytes in flight. It is bounded, far above the needs of a test, so
// that a blocked receiver slows down its sender.
type delayQueue struct {
	mu        sync.Mutex
	changed   sync.Cond
	chunks    []chunk
	bytes     int
	ended     bool // no more pushes
	abandoned bool // no more pops
}

const mostUnderWay = 64 << 20

func (q *delayQueue) init() { q.changed.L = &q.mu }

// push adds a chunk; false means that it will not be read.
func (q *delayQueue) push(c chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > mostUnderWay && !q.abandoned {
		q.changed.Wait()
	}
	if q.abandoned {
		return false
	}
	q.chunks = append(q.chunks, c)
	q.bytes += len(c.data)
	q.changed.Broadcast()
	return true
}

// pop returns the oldest chunk; false means that none will come.
func (q *delayQueue) pop() (chunk, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 && !q.ended {
		q.changed.Wait()
	}
	if len(q.chunks) == 0 {
		return chunk{}, false
	}
	c := q.chunks[0]
	q.chunks = q.chunks[1:]
	q.bytes -= len(c.data)
	q.changed.Broadcast()
	return c, true
}

func (q *delayQueue) end() { q.mark(&q.ended) }

func (q *delayQueue) abandon() { q.mark(&q.abandoned) }

func (q *delayQueue) mark(flag *bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*flag = true
	q.changed.Broadcast()
}
