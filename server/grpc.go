package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/rls"
	"github.com/fluxgate/fluxgate/server/slots"
)

const (
	// maxCalls bounds the calls of a connection at the same time.
	maxCalls = 1_000
	// streamWorkers are goroutines that decide calls. A new goroutine for each would
	// spend a sixth of its time on growing its stack; that is done for the calls that
	// find all of them busy.
	streamWorkers = 64
	// connectionAge is after which time connections are closed, so that clients find
	// servers that were added.
	connectionAge = 30 * time.Minute
)

// listenGRPC serves Envoy's rate limit service.
func (a *App) listenGRPC(ctx context.Context) error {
	accepting, err := a.edge.openListener(ctx, "grpc", a.config.Server.GRPC)
	if err != nil {
		return err
	}
	failures, limiter := logthrottle.New(time.Second), a.limiter()
	service, err := rls.New(rls.Config{
		Limiter:         limiter,
		Withdraw:        limiter.withdraw,
		RuleSet:         envoyrules.RuleSetID,
		ResponseHeaders: a.config.Envoy.ResponseHeaders,
		May: func(ctx context.Context, ruleSet string) bool {
			return a.edge.guard.Open() || access.From(ctx).May(config.RoleCheck, ruleSet)
		},
		Failed: func(ctx context.Context, err error) {
			failures.Log(ctx, a.log, slog.LevelError, "call of Envoy failed: it has no decision, or its hits were not given back",
				"error", err)
		},
	})
	if err != nil {
		return errors.Join(err, accepting.Close())
	}
	g := &grpcServer{app: a}
	g.Server = grpc.NewServer(g.options()...)
	service.Register(g)
	healthpb.RegisterHealthServer(g, &grpcHealth{app: a})
	a.edge.serve(&listener{name: "grpc", net: grpcListener{accepting, &g.arrivals, slots.NewBacklog(maxUnsentCalls)}, server: g}, g.serve)
	return nil
}

// grpcServer is a gRPC server that ends as one of HTTP does.
type grpcServer struct {
	*grpc.Server
	app      *App
	arrivals arrivals
}

func (g *grpcServer) options() []grpc.ServerOption {
	a := g.app
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec), grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(1 << 20),
		grpc.MaxConcurrentStreams(maxCalls), grpc.MaxHeaderListSize(16 << 10),
		grpc.ConnectionTimeout(a.config.Server.Timeouts.ReadHeader),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: a.config.Server.Timeouts.Idle, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: time.Minute,
			Time: time.Minute, Timeout: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(trackCall), grpc.ReadBufferSize(readAhead),
		grpc.ChainUnaryInterceptor(a.watch.metrics.Call),
	}
	if a.edge.usesTLS("grpc") {
		options = append(options, grpc.Creds(credentials.NewTLS(a.edge.certs.config(http2))))
	}
	return options
}

func (g *grpcServer) serve(l net.Listener) error {
	if err := g.Serve(l); err != nil {
		return err
	}
	return http.ErrServerClosed
}

// Shutdown tells clients to leave and waits until their calls have ended.
func (g *grpcServer) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("calls are under way: %w", ctx.Err())
	}
}

// Close ends all calls.
func (g *grpcServer) Close() error {
	g.Stop()
	return nil
}

// admit waits for the start of the server and returns the context of a call with the
// identity of the caller. Health is for everyone, as /readyz.
func (e *edge) admit(ctx context.Context, method string) (context.Context, error) {
	if method == healthpb.Health_Check_FullMethodName {
		return ctx, nil
	}
	if !e.hasStarted() {
		if err := e.waitForStart(ctx); err != nil {
			return nil, err
		}
	}
	if e.guard.Open() {
		return ctx, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	r := (&http.Request{Pattern: method, Header: http.Header{}}).WithContext(ctx)
	if values := md.Get("authorization"); len(values) > 0 {
		r.Header["Authorization"] = values
	}
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	who, code, detail := e.guard.Authenticate(http.Header{}, r)
	switch {
	case who == nil && code == http.StatusServiceUnavailable:
		return nil, status.Error(codes.Unavailable, detail)
	case who == nil:
		return nil, status.Error(codes.Unauthenticated, detail)
	case !who.MayAny(config.RoleCheck):
		return nil, status.Error(codes.PermissionDenied, who.Name+" does not have the role check.")
	}
	return access.With(ctx, who), nil
}

func (e *edge) waitForStart(ctx context.Context) error {
	select {
	case <-e.started:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-time.After(startPatience):
		return status.Error(codes.Unavailable, "the server is starting")
	}
}

// grpcListener closes connections over the limit: gRPC has no answer to them.
type grpcListener struct {
	*limitListener
	arrivals *arrivals
	unsent   *slots.Backlog
}

// Accept implements [net.Listener].
func (l grpcListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.limitListener.Accept()
		if err != nil {
			return nil, err
		}
		if limited, ok := conn.(*limitedConn); !ok || limited.overLimit == nil {
			return &client{Conn: conn, all: l.arrivals, out: l.unsent.Client(conn)}, nil
		}
		_ = conn.Close()
	}
}
