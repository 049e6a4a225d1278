package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/fluxgate/fluxgate/server/slots"
)

const (
	// perStream is about how much gRPC holds for a call that is decided until the client
	// reads the answer, without the header fields.
	perStream = 6 << 10
	// maxUnsentCalls bounds the memory of calls whose answer is not read. Envoy has up to
	// maxCalls on a connection, and reads.
	maxUnsentCalls = 64 << 20
)

// outgoing is a message to the client of a call.
type outgoing struct {
	message any
	call    *arrival
}

// outCodec adds messages to the backlog of the server until they are sent.
type outCodec struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c outCodec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*outgoing)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := c.CodecV2.Marshal(out.message)
	if err == nil {
		sending := unsent{answer: out.call.from.out.Add(out.call.header + data.Len())}
		data = append(data, mem.NewBuffer(&last, sending))
	}
	return data, err
}

// last is an empty buffer behind a message. gRPC frees it once the message is sent or its
// stream has ended. Shorter ones it does not free.
var last = make([]byte, 0, 2<<10)

// unsent is the pool that last is given back to.
type unsent struct {
	mem.NopBufferPool
	answer *slots.Answer
}

// Put implements [mem.BufferPool].
func (u unsent) Put(*[]byte) { u.answer.Remove() }

// Close implements [net.Conn]. gRPC does not free the messages of a closed connection.
func (c *client) Close() error {
	c.out.Leave()
	return c.Conn.Close()
}
