package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// oneAtOnce is a rule that admits one call at the same time.
func oneAtOnce(hold time.Duration) []rules.Rule {
	return []rules.Rule{{ID: "slots", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: hold}}}}
}

// recovering are interceptors that recover panics of handlers, as services have them.
func recovering() []grpc.ServerOption {
	recovered := func(err *error) {
		if p := recover(); p != nil {
			*err = status.Error(codes.Internal, "recovered")
		}
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer recovered(&err)
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer recovered(&err)
			return handler(srv, ss)
		}),
	}
}

// A slot is held while the handler runs, and released when it ends, however it ends.
func TestHold_ReleasedAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(ctx context.Context) error
		want codes.Code
	}{
		"it returns":          {func(context.Context) error { return nil }, codes.OK},
		"it fails":            {func(context.Context) error { return status.Error(codes.NotFound, "no") }, codes.NotFound},
		"it panics":           {func(context.Context) error { panic("of the handler") }, codes.Internal},
		"it settles itself":   {func(ctx context.Context) error { _, err := grpclimit.Settle(ctx, 0); return err }, codes.OK},
		"its client has left": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, method string) {
				engine, entered, goOn := engineOver(t, realStore(), oneAtOnce(time.Hour)), make(chan struct{}), make(chan struct{})
				service := &echo{hook: func(ctx context.Context, _ grpc.ServerStream) error {
					entered <- struct{}{}
					<-goOn
					return c.end(ctx)
				}}
				conn := serve(t, service, append(recovering(), behind(newLimit(t, engine, grpclimit.WithSettling(true)))...)...)
				for range 3 {
					ctx, leave := context.WithCancel(t.Context())
					answered := make(chan answer, 1)
					go func() { answered <- invoke(ctx, conn, method, "hello") }()
					<-entered
					if a := invoke(t.Context(), conn, method, "another"); a.code() != codes.ResourceExhausted {
						t.Errorf("another call at the same time: %v", a.err)
					}
					goOn <- struct{}{}
					if c.want == codes.Canceled {
						leave()
					}
					if a := <-answered; a.code() != c.want {
						t.Errorf("%v, want %v", a.err, c.want)
					}
					leave()
					testenv.Eventually(t, "the slot is free", func() bool { return left(t, engine) == 1 })
				}
			})
		})
	}
}

// fakeStream is a stream of a synctest bubble, in which there are no connections.
type fakeStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *fakeStream) Context() context.Context    { return s.ctx }
func (s *fakeStream) SetHeader(metadata.MD) error { return nil }

// A call that goes on for longer than the hold keeps its slot, of any kind.
func TestHold_Renewed(t *testing.T) {
	const hold = time.Minute
	for name, run := range map[string]func(*grpclimit.Interceptors, func()){
		"unary": func(i *grpclimit.Interceptors, work func()) {
			_, _ = i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unary}, func(context.Context, any) (any, error) { work(); return nil, nil })
		},
		"a stream": func(i *grpclimit.Interceptors, work func()) {
			_ = i.Stream(nil, &fakeStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: bidi}, func(any, grpc.ServerStream) error { work(); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := engineOver(t, realStore(), oneAtOnce(hold))
				go run(newLimit(t, engine), func() { time.Sleep(10 * hold) })
				synctest.Wait()
				for began := time.Now(); time.Since(began) < 9*hold; time.Sleep(hold / 7) {
					if left(t, engine) != 0 {
						t.Fatalf("the slot is free %v after it was taken", time.Since(began))
					}
				}
				time.Sleep(2 * hold)
				if left(t, engine) != 1 {
					t.Error("the slot is not free after the call has ended")
				}
			})
		})
	}
}
