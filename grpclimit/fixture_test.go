package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// logged is gRPC's log.
var logged testenv.LogBuffer

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, &logged))
	goleak.VerifyTestMain(testenv.Suite{M: m})
}

// The methods of the service, one of each kind.
const (
	unary        = "/test.Echo/Unary"
	clientStream = "/test.Echo/ClientStream"
	serverStream = "/test.Echo/ServerStream"
	bidi         = "/test.Echo/Bidi"
)

var methods = []string{unary, clientStream, serverStream, bidi}

// echo is a service that sends back what it receives. Its hook runs before that, in
// each method.
type echo struct {
	hook func(ctx context.Context, ss grpc.ServerStream) error

	mu       sync.Mutex
	received []string
}

func (e *echo) begin(ctx context.Context, ss grpc.ServerStream) error {
	if e.hook == nil {
		return nil
	}
	return e.hook(ctx, ss)
}

func (e *echo) got(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, message)
}

func (e *echo) messages() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.received)
}

func (e *echo) unary(ctx context.Context, m *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	e.got(m.Value)
	return m, e.begin(ctx, nil)
}

// stream echoes every message, at once or the last one at the end.
func (e *echo) stream(ss grpc.ServerStream, atEnd bool) error {
	if err := e.begin(ss.Context(), ss); err != nil {
		return err
	}
	m := new(wrapperspb.StringValue)
	for {
		switch err := ss.RecvMsg(m); {
		case errors.Is(err, io.EOF) && atEnd:
			return ss.SendMsg(m)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		e.got(m.Value)
		if !atEnd {
			if err := ss.SendMsg(m); err != nil {
				return err
			}
		}
	}
}

var echoService = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		m := new(wrapperspb.StringValue)
		if err := decode(m); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, m any) (any, error) {
			return srv.(*echo).unary(ctx, m.(*wrapperspb.StringValue))
		}
		if interceptor == nil {
			return handler(ctx, m)
		}
		return interceptor(ctx, m, &grpc.UnaryServerInfo{Server: srv, FullMethod: unary}, handler)
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "ClientStream", ClientStreams: true, Handler: func(srv any, ss grpc.ServerStream) error { return srv.(*echo).stream(ss, true) }},
		{StreamName: "ServerStream", ServerStreams: true, Handler: func(srv any, ss grpc.ServerStream) error { return srv.(*echo).stream(ss, false) }},
		{StreamName: "Bidi", ServerStreams: true, ClientStreams: true, Handler: func(srv any, ss grpc.ServerStream) error { return srv.(*echo).stream(ss, false) }},
	},
}

// serve runs a real server until the test ends, and returns a connection to it.
func serve(t testing.TB, service *echo, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, listener, service, options...)
	return dial(t, listener.Addr().String())
}

func serveOn(t testing.TB, listener net.Listener, service *echo, options ...grpc.ServerOption) {
	t.Helper()
	server := grpc.NewServer(options...)
	server.RegisterService(&echoService, service)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func dial(t testing.TB, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// behind are the server options for interceptors, the outermost first.
func behind(all ...*grpclimit.Interceptors) []grpc.ServerOption {
	var options []grpc.ServerOption
	for _, i := range all {
		options = append(options, grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream))
	}
	return options
}

func newLimit(t testing.TB, limiter fluxgate.Limiter, options ...grpclimit.Option) *grpclimit.Interceptors {
	t.Helper()
	limit, err := grpclimit.New(limiter, options...)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// limited is a connection to a service behind one limiter.
func limited(t testing.TB, service *echo, limiter fluxgate.Limiter, options ...grpclimit.Option) *grpc.ClientConn {
	t.Helper()
	return serve(t, service, behind(newLimit(t, limiter, options...))...)
}

// answer is what a client got.
type answer struct {
	messages []string
	header   metadata.MD
	err      error
}

func (a *answer) code() codes.Code { return status.Code(a.err) }

// invoke calls a method of any kind with messages, and reads until the end.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, messages ...string) (a answer) {
	if method == unary {
		reply := new(wrapperspb.StringValue)
		if a.err = conn.Invoke(ctx, method, wrapperspb.String(messages[0]), reply, grpc.Header(&a.header)); a.err == nil {
			a.messages = []string{reply.Value}
		}
		return a
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return answer{err: err}
	}
	for _, message := range messages {
		if stream.SendMsg(wrapperspb.String(message)) != nil {
			break // RecvMsg says why
		}
	}
	_ = stream.CloseSend()
	for {
		m := new(wrapperspb.StringValue)
		if a.err = stream.RecvMsg(m); a.err != nil {
			break
		}
		a.messages = append(a.messages, m.Value)
	}
	if errors.Is(a.err, io.EOF) {
		a.err = nil
	}
	a.header, _ = stream.Header()
	return a
}

// each runs a test for each kind of method.
func each(t *testing.T, test func(t *testing.T, method string)) {
	t.Helper()
	for _, method := range methods {
		t.Run(method[len("/test.Echo/"):], func(t *testing.T) { test(t, method) })
	}
}

func newEngine(t testing.TB, list []rules.Rule) *fluxgate.Engine {
	t.Helper()
	return engineOver(t, newStore(), list)
}

// newStore returns a store in memory with a fixed clock.
func newStore() *memstore.Store {
	return fluxgate.Must(memstore.New(memstore.Config{Clock: storetest.NewClock().Now}))
}

func engineOver(t testing.TB, buckets store.Store, list []rules.Rule, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	engine, err := fluxgate.New(buckets, fluxgate.Static(fluxgate.Must(rules.NewSet("api", list...))), options...)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// perHour is a rule for everyone with one band of n an hour.
func perHour(id string, n int64) rules.Rule {
	return rules.Rule{ID: id, Bands: []rules.Band{{Label: "hour", Capacity: n, Refill: time.Hour}}}
}

// left is what a rule for everyone has left.
func left(t testing.TB, engine *fluxgate.Engine) int64 {
	t.Helper()
	d, err := engine.Check(t.Context(), &fluxgate.Request{Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// limiterFunc decides with a function.
type limiterFunc func(context.Context, *fluxgate.Request) (fluxgate.Decision, error)

func (f limiterFunc) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return f(ctx, req)
}

func (limiterFunc) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (limiterFunc) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, nil
}

func (limiterFunc) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, nil
}

func decided(d fluxgate.Decision) limiterFunc {
	return func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) { return d, nil }
}

// seen is a limiter that records its requests and allows everything.
type seen struct {
	limiterFunc
	mu       sync.Mutex
	requests []fluxgate.Request
}

func newSeen() *seen {
	s := new(seen)
	s.limiterFunc = func(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, *req)
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}
	return s
}
