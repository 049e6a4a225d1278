package grpclimit

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/deadline"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Interceptors put a limiter in front of the methods of a gRPC server.
type Interceptors struct{ gate gate }

var (
	_ grpc.UnaryServerInterceptor  = (*Interceptors)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Interceptors)(nil).Stream
)

// New returns interceptors that decide every call with limiter, except those that
// its options skip. They can be used for any number of servers. The error lists all
// problems of the options.
func New(limiter fluxgate.Limiter, options ...Option) (*Interceptors, error) {
	i := &Interceptors{gate{Gate: middleware.Gate[*Call]{
		Limiter: limiter, ClientIP: new(clientip.Resolver), Headers: middleware.NewHeaders(true), Log: logFailure,
	}}}
	if err := middleware.Apply(&i.gate, limiter, options); err != nil {
		return nil, fmt.Errorf("creating interceptors: %w", err)
	}
	return i, nil
}

// gate is a limiter as gRPC sees it.
type gate struct {
	middleware.Gate[*Call]
	reject func(*Call, *Rejection) error
}

// Unary is a [grpc.UnaryServerInterceptor]. It runs handler once or returns a
// status. Panics of the user's functions are recovered, those of handler are not.
func (i *Interceptors) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	g, call := &i.gate, newCall(ctx, info.FullMethod, req)
	if g.Skips(info.FullMethod) {
		if err := g.Skip(call); err != nil {
			return nil, g.fail(call, err)
		}
		return handler(ctx, req)
	}
	ctx, end, err := g.admit(call, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) })
	if err != nil {
		return nil, err
	}
	defer end() // also if handler panics
	return handler(ctx, req)
}

// Stream is a [grpc.StreamServerInterceptor]. It is [Interceptors.Unary] for
// streams.
func (i *Interceptors) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	g, call := &i.gate, newCall(ss.Context(), info.FullMethod, nil)
	if g.Skips(info.FullMethod) {
		if err := g.Skip(call); err != nil {
			return g.fail(call, err)
		}
		return handler(srv, ss)
	}
	ctx, end, err := g.admit(call, ss.SetHeader)
	if err != nil {
		return err
	}
	defer end() // also if handler panics
	if g.Settling {
		ss = &settlingStream{ss, ctx}
	}
	return handler(srv, ss)
}

// settlingStream has the admission in its context.
type settlingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *settlingStream) Context() context.Context { return s.ctx }

// admit decides a call. If it passes, ctx is for its handler, and end must be called
// when it ends. Else err is the status for the client. setHeader gets the rate limit
// headers.
func (g *gate) admit(call *Call, setHeader func(metadata.MD) error) (ctx context.Context, end func(), err error) {
	req := middleware.NewRequest()
	req.Method, req.Path, req.Headers = http.MethodPost, call.FullMethod, call.Metadata
	req.Host = strings.Join(call.Metadata[":authority"], ",")
	req.IP = g.ClientIP.Resolve(peerName(call.ctx), http.Header(call.Metadata))
	d, err := g.Decide(deadline.BeforeAnswer(call.ctx), call, req)
	if err != nil {
		return nil, nil, g.fail(call, err) // the limiter may still hold the request: it is not reused
	}
	cost, ruleSet := req.Cost, req.RuleSet
	middleware.Release(req)
	md := metadata.MD{}
	g.Headers.Set(md, &d)
	_ = setHeader(md) // an outer interceptor may have sent the headers
	if !d.Allowed {
		return nil, nil, g.refuse(call, rejection(&d))
	}
	ctx, end = call.ctx, g.Hold(call.ctx, call, &d, cost)
	if g.Settling {
		ctx = g.WithAdmission(ctx, ruleSet, d)
	}
	return ctx, end, nil
}

// peerName returns the address of the peer as clientip reads it: empty for a unix
// socket. The server's end of the connection decides if it is known: a client can
// name its own end of a unix socket like an address.
func peerName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "unknown"
	}
	end := p.Addr
	if p.LocalAddr != nil {
		end = p.LocalAddr
	}
	if strings.HasPrefix(end.Network(), "unix") {
		return ""
	}
	return p.Addr.String()
}
