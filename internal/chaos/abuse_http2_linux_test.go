package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawHTTP2 is a client of HTTP/2 that keeps to the windows of streams and to nothing else.
type rawHTTP2 struct {
	out    *bufio.Writer
	framer *http2.Framer
	next   uint32 // the id of the next stream

	mu      sync.Mutex
	windows map[uint32]int // what may be sent on streams
	ended   map[uint32]bool
}

func dialHTTP2(t *testing.T, addr string, settings ...http2.Setting) *rawHTTP2 {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c, err := newHTTP2(conn, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newHTTP2(conn net.Conn, settings ...http2.Setting) (*rawHTTP2, error) {
	out := bufio.NewWriterSize(conn, 32<<10)
	c := &rawHTTP2{out: out, framer: http2.NewFramer(out, conn), next: 1, windows: map[uint32]int{}, ended: map[uint32]bool{}}
	_, _ = out.WriteString(http2.ClientPreface)
	_ = c.framer.WriteSettings(settings...)
	if err := out.Flush(); err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func (c *rawHTTP2) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			c.windows[frame.StreamID] += int(frame.Increment)
		case *http2.HeadersFrame:
			c.ended[frame.StreamID] = c.ended[frame.StreamID] || frame.StreamEnded()
		case *http2.RSTStreamFrame:
			c.ended[frame.StreamID] = true
		}
		c.mu.Unlock()
	}
}

// call is the headers of a call, with more fields. No server keeps them for later calls.
func call(path string, more ...string) []byte {
	return headers(append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "x", "content-type", "application/grpc", "te", "trailers"}, more...)...)
}

func headers(fields ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // to memory
	}
	return block.Bytes()
}

// open begins a stream. The block may be used for several: all of its fields are in full.
func (c *rawHTTP2) open(block []byte) (stream uint32, err error) {
	stream = c.next
	c.next += 2
	c.mu.Lock()
	c.windows[stream] = 65_535
	c.mu.Unlock()
	return stream, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true})
}

func (c *rawHTTP2) hasEnded(stream uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[stream]
}

// send sends as much of a message without end as the server lets it, in frames of a size.
func (c *rawHTTP2) send(ctx context.Context, stream uint32, data []byte, size int) (sent int, err error) {
	for sent < len(data) && err == nil && ctx.Err() == nil {
		c.mu.Lock()
		n := min(size, len(data)-sent, c.windows[stream])
		if n <= 0 || c.ended[stream] {
			c.mu.Unlock()
			return sent, nil
		}
		c.windows[stream] -= n
		c.mu.Unlock()
		err = c.framer.WriteData(stream, false, data[sent:sent+n])
		sent += n
	}
	return sent, err
}

// unfinished is all but the last byte of a message.
func unfinished(length int) []byte {
	message := make([]byte, 5+length-1)
	binary.BigEndian.PutUint32(message[1:], uint32(length))
	return message
}
