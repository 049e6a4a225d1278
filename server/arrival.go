package server

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/fluxgate/fluxgate/server/rls"
	"github.com/fluxgate/fluxgate/server/slots"
)

// gRPC has no bound on what calls hold whose message is not complete: it keeps a buffer for
// each frame, however small, until the last has come. So messages are read here in pieces.
const (
	// maxMessage bounds a message to the rate limit service. Envoy repeats a header of up
	// to 60 KiB in every descriptor that uses it, and lets requests pass whose call is refused.
	maxMessage = 1 << 20
	// maxSmall bounds a message to health.
	maxSmall = 4 << 10
	// maxFields bounds the header fields of a call: a repeated field is one byte of HTTP/2,
	// and takes far more memory in gRPC.
	maxFields = 64
	// perCall is about how much a call takes without its message.
	perCall = 16 << 10
	// maxArrival bounds how long a message may take to arrive.
	maxArrival = 5 * time.Second
	// window is how much of a call a client may send before it is read, and readAhead how
	// much of all its calls gRPC reads at a time.
	window, readAhead = 65_535, 32 << 10
	// overhead is how much memory a byte may take that is not read: gRPC holds a frame of
	// little more than 4 KiB in 16 KiB.
	overhead = 4
	// maxUnread bounds the memory of all messages that arrive at the same time.
	maxUnread = 64 << 20
	// slowRead is how much later a client is read if one of its calls held too much.
	slowRead = 10 * time.Millisecond
	// piece is how much of a message is read at a time.
	piece = 4 << 10
)

var (
	codec      = outCodec{rls.Codec()}
	errLate    = status.Error(codes.DeadlineExceeded, "the message did not arrive in time")
	errUnread  = status.Error(codes.ResourceExhausted, "the client does not read its answers")
	errCrowded = status.Error(codes.ResourceExhausted, "too many concurrent messages, and this one was the slowest")
)

// arrivals are the calls whose message has not arrived. If they hold too much memory the
// oldest end: the message of an honest client is there within milliseconds.
type arrivals struct {
	mu    sync.Mutex
	held  int       // bytes
	calls list.List // of *arrival, the oldest first
}

type arrival struct {
	from   *client
	end    context.CancelCauseFunc // ends the call
	header int                     // bytes that the call holds until it is answered
	began  int                     // what the client had sent when the call began
	held   int                     // bytes, without those that are not read
	places [2]*list.Element        // in all calls and in those of the client; nil once it has left
	prefix [5]byte                 // of the message
}

// client is the connection of a client. Which call the bytes belong to is not known, so they
// count for as long as a call waits that was there when they came.
type client struct {
	net.Conn
	all   *arrivals
	out   *slots.Client
	sent  int       // bytes
	held  int       // bytes, of calls that are not read
	slow  bool      // a call of it held too much
	calls list.List // of *arrival, the oldest first
}

// Read implements [net.Conn].
func (c *client) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.slow { // what ended calls held is not free at once
		c.slow = false
		c.all.mu.Unlock()
		time.Sleep(slowRead)
		c.all.mu.Lock()
	}
	c.sent += n
	c.count()
	c.all.bound()
	return n, err
}

// RemoteAddr implements [net.Conn]. It leads from a call to its connection.
func (c *client) RemoteAddr() net.Addr { return clientAddr{c.Conn.RemoteAddr(), c} }

type clientAddr struct {
	net.Addr
	client *client
}

// count counts what the calls of the client hold that wait, with what is not read.
func (c *client) count() {
	held := 0
	if oldest := c.calls.Front(); oldest != nil {
		calls := c.calls.Len()
		held = calls*perCall + overhead*min(c.sent-oldest.Value.(*arrival).began, calls*window)
	}
	c.all.held += held - c.held
	c.held = held
}

// bound ends the oldest calls while all hold too much.
func (all *arrivals) bound() {
	for all.held > maxUnread && all.calls.Len() > 0 {
		oldest := all.calls.Front().Value.(*arrival)
		oldest.end(errCrowded)
		oldest.from.slow = true
		oldest.remove()
	}
}

type arrivalKey struct{}

// trackCall makes it possible to end a call that waits for its message. gRPC calls it for the
// headers of the call, and may have read up to readAhead bytes after them.
func trackCall(ctx context.Context, call *tap.Info) (context.Context, error) {
	fields, held := 0, perStream
	for name, values := range call.Header {
		fields += len(values)
		for _, value := range values {
			held += slots.PerField + len(name) + len(value)
		}
	}
	if fields > maxFields {
		return nil, status.Errorf(codes.ResourceExhausted, "the call has more than %d header fields", maxFields)
	}
	caller, _ := peer.FromContext(ctx)
	from := caller.Addr.(clientAddr).client
	if from.out.Full() {
		return nil, errUnread
	}
	ctx, end := context.WithCancelCause(ctx)
	from.all.mu.Lock()
	defer from.all.mu.Unlock()
	return context.WithValue(ctx, arrivalKey{}, &arrival{from: from, end: end, header: held, began: from.sent - readAhead}), nil
}

// arrive adds a call that waits for a message. It must leave.
func arrive(ctx context.Context) *arrival {
	a := ctx.Value(arrivalKey{}).(*arrival)
	all := a.from.all
	all.mu.Lock()
	defer all.mu.Unlock()
	a.places = [2]*list.Element{all.calls.PushBack(a), a.from.calls.PushBack(a)}
	a.from.count()
	all.bound()
	return a
}

// hold adds to the memory of a call.
func (a *arrival) hold(bytes int) {
	all := a.from.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if a.places[0] != nil { // otherwise it has ended
		a.held += bytes
		all.held += bytes
		all.bound()
	}
}

func (a *arrival) leave() {
	a.from.all.mu.Lock()
	defer a.from.all.mu.Unlock()
	a.remove()
}

func (a *arrival) remove() {
	if a.places[0] == nil {
		return
	}
	a.from.all.calls.Remove(a.places[0])
	a.from.calls.Remove(a.places[1])
	a.places = [2]*list.Element{}
	a.from.all.held -= a.held
	a.held = 0
	a.from.count()
}

// incoming is the transport's stream of a call. gRPC reads messages by the same methods.
type incoming interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// receive reads the only message of a call, of at most so many bytes.
func (a *arrival) receive(ctx context.Context, into any, most int) error {
	late := time.AfterFunc(maxArrival, func() { a.end(errLate) })
	defer late.Stop()
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(incoming)
	if !ok { // an error that tests find, and not the end of the process
		return status.Error(codes.Internal, "this version of gRPC has another transport")
	}
	message, err := a.read(stream, most)
	defer message.Free()
	if err == nil {
		if err = stream.ReadMessageHeader(a.prefix[:1]); err == nil {
			err = errors.New("the call has more than one message")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err == nil {
		err = codec.Unmarshal(message, into)
	}
	var known interface{ GRPCStatus() *status.Status }
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.As(cause, &known):
		return cause
	case errors.As(err, &known):
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// read reads a message.
func (a *arrival) read(stream incoming, most int) (mem.BufferSlice, error) {
	header := a.prefix[:]
	if err := stream.ReadMessageHeader(header); err != nil {
		return nil, err
	}
	if header[0] != 0 { // Envoy does not compress, and few bytes could become many
		return nil, status.Error(codes.Unimplemented, "compressed messages are not supported")
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > uint32(most) {
		return nil, status.Errorf(codes.ResourceExhausted, "the message has more than %d bytes", most)
	}
	message, err := a.readPieces(stream, int(length))
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF // not the end of a stream of messages
	}
	return message, err
}

// readPieces reads so many bytes. Memory is taken as they come, not as they are announced.
func (a *arrival) readPieces(stream incoming, length int) (mem.BufferSlice, error) {
	if length <= piece {
		return stream.Read(length)
	}
	var message mem.BufferSlice
	pool := mem.DefaultBufferPool()
	for length > 0 {
		a.hold(2 * readAhead) // once more to be decoded
		buffer := pool.Get(min(readAhead, length))
		length -= len(*buffer)
		message = append(message, mem.NewBuffer(buffer, pool))
		for n := 0; n < len(*buffer); {
			part, err := stream.Read(min(piece, len(*buffer)-n))
			if err != nil {
				message.Free()
				return nil, err
			}
			n += part.CopyTo((*buffer)[n:])
			part.Free()
		}
	}
	return message, nil
}

// RegisterService implements [grpc.ServiceRegistrar]: callers of the methods are admitted
// before their message is read. Streams, as of health, are left out: a drain would wait for them.
func (g *grpcServer) RegisterService(desc *grpc.ServiceDesc, service any) {
	bounded := *desc
	bounded.Methods, bounded.Streams = nil, nil
	for _, m := range desc.Methods {
		m.Handler = g.handle("/"+desc.ServiceName+"/"+m.MethodName, m.Handler)
		bounded.Methods = append(bounded.Methods, m)
	}
	g.Server.RegisterService(&bounded, service)
}

func (g *grpcServer) handle(method string, next grpc.MethodHandler) grpc.MethodHandler {
	most := maxSmall
	if method == rls.Method {
		most = maxMessage
	}
	return func(service any, ctx context.Context, _ func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		a := arrive(ctx)
		defer a.leave() // also if it is not read
		admitted, err := g.app.edge.admit(ctx, method)
		if err != nil { // it is counted as others are
			info := &grpc.UnaryServerInfo{Server: service, FullMethod: method}
			return interceptor(ctx, nil, info, func(context.Context, any) (any, error) { return nil, err })
		}
		answer, err := next(service, admitted, func(into any) error {
			defer a.leave()
			return a.receive(ctx, into, most)
		}, interceptor)
		return &outgoing{answer, a}, err
	}
}
