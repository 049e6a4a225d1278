package slots_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fluxgate/fluxgate/server/slots"
)

// conn is a connection that notes that it was closed.
type conn struct{ closed bool }

func (c *conn) Close() error {
	c.closed = true
	return nil
}

// If answers hold too much, the connection of the oldest is closed and its answers no longer
// count. Answers that were sent do not either.
func TestBacklog_Oldest(t *testing.T) {
	b, conns, clients := slots.NewBacklog(100), [3]conn{}, [3]*slots.Client{}
	for i := range conns {
		clients[i] = b.Client(&conns[i])
	}
	sent := clients[0].Add(30)
	clients[1].Add(30)
	late := clients[0].Add(30)
	sent.Remove()
	sent.Remove()
	clients[1].Add(30)
	if clients[2].Add(10); conns != [3]conn{} {
		t.Fatalf("%+v are closed at 100 bytes of 100", conns)
	}
	if clients[2].Add(1); conns != [3]conn{{}, {true}, {}} {
		t.Fatalf("%+v are closed, want the second, which has the oldest answer", conns)
	}
	late.Remove()
	clients[1].Add(1_000) // it is closed
	clients[2].Add(89)
	if clients[0].Add(1); conns != [3]conn{{}, {true}, {true}} {
		t.Fatalf("%+v are closed, want also the third", conns)
	}
	clients[0].Leave()
	if clients[0].Add(1_000); conns[0].closed {
		t.Error("an answer to a client that has left counts")
	}
	if b.Client(&conns[0]).Add(101); conns[0].closed {
		t.Error("the only answer is not sent")
	}
}

// A client with few answers keeps its connection, though it waits for the oldest: others have many.
func TestBacklog_Share(t *testing.T) {
	b, honest, many := slots.NewBacklog(100), new(conn), new(conn)
	b.Client(honest).Add(10)
	attacker := b.Client(many)
	for range 10 {
		attacker.Add(10)
	}
	if honest.closed || !many.closed {
		t.Errorf("closed: %t for one answer, %t for ten", honest.closed, many.closed)
	}
}

// A client with many unread answers is full while all clients hold half of what they may.
func TestBacklog_Full(t *testing.T) {
	b := slots.NewBacklog(1_000)
	slow, fast := b.Client(new(conn)), b.Client(new(conn))
	for range 64 {
		slow.Add(2)
	}
	answer := fast.Add(400)
	if slow.Full() || fast.Full() {
		t.Error("a client with 64 answers is full")
	}
	if slow.Add(2); !slow.Full() || fast.Full() {
		t.Error("a client with 65 answers is not full, or another is")
	}
	if answer.Remove(); slow.Full() {
		t.Error("a client is full though answers hold little")
	}
}

// The header of a request counts with its answer.
func TestBacklog_Response(t *testing.T) {
	b, many := slots.NewBacklog(1<<20), new(conn)
	r := httptest.NewRequestWithContext(b.ConnContext(context.Background(), many), http.MethodPost, "/", nil)
	for range 10_000 {
		r.Header.Add("a", "")
	}
	slots.ClientOf(r).AddResponse(r, 0)
	other := r.WithContext(b.ConnContext(context.Background(), new(conn)))
	other.Header = nil
	if slots.ClientOf(other).AddResponse(other, 0); !many.closed {
		t.Error("10,000 fields hold less than 1 MiB")
	}
	slots.ClientOf(httptest.NewRequest(http.MethodPost, "/", nil)).AddResponse(r, 0).Remove() // no client
}
