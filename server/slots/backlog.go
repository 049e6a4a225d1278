package slots

import (
	"container/list"
	"context"
	"io"
	"net/http"
	"sync"
)

const (
	// perResponse is about how much a request holds while its answer is sent.
	perResponse = 20 << 10
	// PerField is the approximate memory of a header field besides its text.
	PerField = 128
	// maxPerClient is how many answers a client may leave unread when many are.
	maxPerClient = 64
)

// Backlog bounds the memory of answers that clients do not read. If they hold too much, it
// closes the connection with the oldest answer among those that hold at least the average.
// An honest client reads within milliseconds, and has few unread answers. A Backlog is safe
// for concurrent use.
type Backlog struct {
	most int

	mu      sync.Mutex
	held    int
	clients int       // that have answers
	answers list.List // of *Answer, the oldest first
}

// Client is a connection and the answers to it.
type Client struct {
	backlog *Backlog
	conn    io.Closer
	answers list.List // of *Answer
	held    int       // by them
	closed  bool
}

// Answer is an answer that is being sent.
type Answer struct {
	to     *Client
	bytes  int
	places [2]*list.Element // in all answers and in those to the client; nil once it has left
}

// NewBacklog returns a backlog with a maximum number of bytes.
func NewBacklog(most int) *Backlog { return &Backlog{most: most} }

// Client returns a client of a connection.
func (b *Backlog) Client(conn io.Closer) *Client { return &Client{backlog: b, conn: conn} }

// Add adds an answer. Its bytes count until it is removed or the client has left.
func (c *Client) Add(bytes int) *Answer {
	added := &Answer{to: c, bytes: bytes}
	for _, client := range c.backlog.add(added) {
		_ = client.conn.Close()
	}
	return added
}

// add adds an answer, and returns the clients whose connections are to be closed.
func (b *Backlog) add(added *Answer) (oldest []*Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if added.to.closed {
		return nil
	}
	if added.to.answers.Len() == 0 {
		b.clients++
	}
	b.held += added.bytes
	added.to.held += added.bytes
	added.places = [2]*list.Element{b.answers.PushBack(added), added.to.answers.PushBack(added)}
	for b.held > b.most && b.answers.Len() > 1 {
		client := b.slowest()
		client.leave()
		oldest = append(oldest, client)
	}
	return oldest
}

// slowest is the client with the oldest answer of those that hold at least the average.
func (b *Backlog) slowest() *Client {
	oldest := b.answers.Front()
	for oldest.Value.(*Answer).to.held < b.held/b.clients {
		oldest = oldest.Next()
	}
	return oldest.Value.(*Answer).to
}

// Remove removes an answer that was sent.
func (a *Answer) Remove() {
	a.to.backlog.mu.Lock()
	defer a.to.backlog.mu.Unlock()
	a.remove()
}

func (a *Answer) remove() {
	if a.places[0] != nil {
		a.to.backlog.answers.Remove(a.places[0])
		a.to.answers.Remove(a.places[1])
		a.places = [2]*list.Element{}
		a.to.backlog.held -= a.bytes
		a.to.held -= a.bytes
		if a.to.answers.Len() == 0 {
			a.to.backlog.clients--
		}
	}
}

// Leave removes all answers to a client whose connection is closed.
func (c *Client) Leave() {
	c.backlog.mu.Lock()
	defer c.backlog.mu.Unlock()
	c.leave()
}

func (c *Client) leave() {
	c.closed = true
	for c.answers.Len() > 0 {
		c.answers.Front().Value.(*Answer).remove()
	}
}

// Full reports whether a client reads too slowly to get more answers: it has many unread
// answers, and all clients together hold half of the maximum.
func (c *Client) Full() bool {
	c.backlog.mu.Lock()
	defer c.backlog.mu.Unlock()
	return c.answers.Len() > maxPerClient && c.backlog.held > c.backlog.most/2
}

type clientKey struct{}

// ConnContext returns the context of the requests of a connection.
func (b *Backlog) ConnContext(ctx context.Context, conn io.Closer) context.Context {
	return context.WithValue(ctx, clientKey{}, b.Client(conn))
}

// ClientOf returns the client of a request. Without [Backlog.ConnContext] it has no connection.
func ClientOf(r *http.Request) *Client {
	if client, ok := r.Context().Value(clientKey{}).(*Client); ok {
		return client
	}
	return &Client{backlog: new(Backlog), closed: true}
}

// AddResponse adds the answer to a request. bytes is the size of the answer without the request.
func (c *Client) AddResponse(r *http.Request, bytes int) *Answer {
	bytes += perResponse
	for name, values := range r.Header {
		for _, value := range values {
			bytes += PerField + len(name) + len(value)
		}
	}
	return c.Add(bytes)
}
