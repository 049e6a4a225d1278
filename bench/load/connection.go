package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// connection sends calls of the rate limit service, encoded beforehand, and checks the
// answers. It takes a fraction of the processor time of a client of gRPC, and the machine
// is shared with the service.
type connection struct {
	net     net.Conn
	reader  *bufio.Reader
	decoder *hpack.Decoder
	refusal error  // of the last call
	unread  uint32 // bytes of messages since the last window update

	framer *http2.Framer // reads in one goroutine and writes under mu
	mu     sync.Mutex
	writer *bufio.Writer
	blocks [2][]byte // the headers of the first call and of all others
	calls  uint32
	open   int
	began  [1 << 12]time.Time // of calls that are open, by their number

	answered [1 << 12]bool // the calls whose answer has begun
}

// patience is after which time a service that does not answer fails a measurement.
const patience = time.Minute

func dial(ctx context.Context, addr string) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &connection{net: conn, reader: bufio.NewReaderSize(conn, 64<<10), writer: bufio.NewWriterSize(conn, 64<<10)}
	c.framer = http2.NewFramer(c.writer, c.reader)
	c.framer.SetReuseFrames()
	c.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" && f.Value != "0" {
			c.refusal = fmt.Errorf("status %s", f.Value)
		}
	})
	// The first headers fill the table of the other side, so that all others are alike.
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range c.blocks {
		for _, f := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", pb.RateLimitService_ShouldRateLimit_FullMethodName},
			{":authority", "ratelimit"}, {"te", "trailers"}, {"content-type", "application/grpc"},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer has no error
		}
		c.blocks[i] = bytes.Clone(block.Bytes())
		block.Reset()
	}
	_, _ = c.writer.WriteString(http2.ClientPreface) // the error is that of the next write
	return c, c.framer.WriteSettings()
}

// send begins a call, whose latency counts from a moment.
func (c *connection) send(message []byte, began time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := 2*c.calls + 1
	c.began[c.calls%uint32(len(c.began))] = began
	block := c.blocks[min(c.calls, 1)]
	c.open++
	c.calls++
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
		return err
	}
	return c.framer.WriteData(id, true, message)
}

// write writes with a function, and sends it with all that was written before.
func (c *connection) write(write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(write(), c.writer.Flush())
}

func (c *connection) flush() error { return c.write(func() error { return nil }) }

// receive reads until the end of a call, and returns when it began.
func (c *connection) receive() (began time.Time, err error) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return began, err
		}
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil || c.refusal != nil {
				return began, errors.Join(err, c.refusal)
			}
			if f.StreamEnded() {
				return c.end(f.StreamID / 2 % uint32(len(c.began))), nil
			}
		case *http2.DataFrame:
			err = c.check(f)
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.write(c.framer.WriteSettingsAck)
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.write(func() error { return c.framer.WritePing(true, f.Data) })
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			err = fmt.Errorf("the service ends the call: %v", f)
		}
		if err != nil {
			return began, err
		}
	}
}

// end ends a call and returns when it began.
func (c *connection) end(call uint32) (began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.answered[call] = false
	return c.began[call]
}

// check checks that an answer is OK and was decided in Redis: a call that is not would be
// cheaper than others. Fields are in the order of their numbers, the first is the code.
func (c *connection) check(f *http2.DataFrame) error {
	const prefix, code = 5, "\x08\x01"
	data, answered := f.Data(), &c.answered[f.StreamID/2%uint32(len(c.began))]
	wrong := !*answered && (len(data) < prefix || !bytes.HasPrefix(data[prefix:], []byte(code)))
	if *answered = true; wrong || bytes.Contains(data, []byte("degraded")) {
		return fmt.Errorf("the answer is not OK: %q", data)
	}
	if c.unread += uint32(len(data)); c.unread < 16<<10 {
		return nil
	}
	n := c.unread
	c.unread = 0
	return c.write(func() error { return c.framer.WriteWindowUpdate(0, n) })
}
