package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// waiting is a rule of one token, for which requests wait.
func waiting(refill time.Duration) rules.Rule {
	return rules.Rule{ID: "queue", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{{Capacity: 1, Refill: refill}}}
}

func realStore() *memstore.Store { return fluxgate.Must(memstore.New(memstore.Config{})) }

// waits is an observer of an engine: how many requests wait, and what was settled.
type waits struct {
	mu      sync.Mutex
	waiting int
	settled []store.Settlement
}

func (*waits) Decided(context.Context, *fluxgate.Request, *fluxgate.Decision, error) {}
func (*waits) StoreFailed(context.Context, error)                                    {}

func (w *waits) Waiting(_ context.Context, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting += change
}

func (w *waits) Settled(_ context.Context, s store.Settlement, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled = append(w.settled, s)
}

func (w *waits) now() (waiting int, settled []store.Settlement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting, slices.Clone(w.settled)
}

// A call waits for its tokens and passes.
func TestWait_Passes(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		conn := limited(t, new(echo), engineOver(t, realStore(), []rules.Rule{waiting(20 * time.Millisecond)}, fluxgate.WithWaiting(time.Minute, 9)))
		began := time.Now()
		for range 3 {
			if a := invoke(t.Context(), conn, method, "hello"); a.err != nil {
				t.Fatal(a.err)
			}
		}
		if took := time.Since(began); took < 40*time.Millisecond {
			t.Errorf("three calls took %v", took)
		}
	})
}

// A call that is cancelled while it waits on a real Redis ends, its handler
// does not run, and its token is given back.
func TestWait_Cancelled(t *testing.T) {
	redis := testenv.SharedStandalone(t)
	each(t, func(t *testing.T, method string) {
		buckets, err := redisstore.Open(t.Context(), redis.URI(), redisstore.Config{Prefix: fmt.Sprintf("grpc-%d", rand.Uint64()), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = buckets.Close() })
		observer, failed, service := new(waits), new(recorder), new(echo)
		engine := engineOver(t, buckets, []rules.Rule{waiting(30 * time.Minute)}, fluxgate.WithWaiting(time.Hour, 9), fluxgate.WithObserver(observer), fluxgate.WithOnFailure(rules.FailClosed))
		conn := limited(t, service, engine, grpclimit.WithObserver(failed))
		if a := invoke(t.Context(), conn, method, "first"); a.err != nil {
			t.Fatal(a.err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answered := make(chan answer, 1)
		go func() { answered <- invoke(ctx, conn, method, "second") }()
		testenv.Eventually(t, "the second call waits", func() bool { n, _ := observer.now(); return n == 1 })
		cancel()
		if a := <-answered; a.code() != codes.Canceled {
			t.Errorf("%v", a.err)
		}
		testenv.Eventually(t, "its token is given back", func() bool {
			n, settled := observer.now()
			return n == 0 && slices.Equal(settled, []store.Settlement{{Returned: 1}})
		})
		testenv.Eventually(t, "the observer is called", func() bool {
			calls, err := failed.recorded()
			return errors.Is(err, context.Canceled) && calls[len(calls)-1] == "failed "+method
		})
		if got := service.messages(); !slices.Equal(got, []string{"first"}) {
			t.Errorf("the handler got %q", got)
		}
	})
}

// A call does not wait for tokens that are due after its deadline: it is refused at
// once, and takes nothing.
func TestWait_DeadlineTooSoon(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		observer := new(waits)
		conn := limited(t, new(echo), engineOver(t, realStore(), []rules.Rule{waiting(30 * time.Minute)}, fluxgate.WithWaiting(time.Hour, 9), fluxgate.WithObserver(observer)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		invoke(ctx, conn, method, "first")
		if a := invoke(ctx, conn, method, "second"); a.code() != codes.ResourceExhausted || detailsOf(t, a.err).retry == nil {
			t.Errorf("%v", a.err)
		}
	})
}

// A call is held so that its handler can still answer before its deadline.
func TestWait_BeforeDeadline(t *testing.T) {
	var left time.Duration
	limiter := limiterFunc(func(ctx context.Context, _ *fluxgate.Request) (fluxgate.Decision, error) {
		until, _ := ctx.Deadline()
		left = time.Until(until)
		return fluxgate.Decision{Allowed: true}, nil
	})
	each(t, func(t *testing.T, method string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a := invoke(ctx, limited(t, new(echo), limiter), method, "hello"); a.err != nil || left > time.Minute-100*time.Millisecond || left < 30*time.Second {
			t.Errorf("it may be held for %v of a minute, %v", left, a.err)
		}
	})
}

// The status of a call that ends before there is a decision.
func TestFailure_ContextEnds(t *testing.T) {
	// The client would report its own code, so the interceptors are called without one.
	stuck := limiterFunc(func(ctx context.Context, _ *fluxgate.Request) (fluxgate.Decision, error) {
		<-ctx.Done()
		return fluxgate.Decision{}, fmt.Errorf("asking: %w", ctx.Err())
	})
	past, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for want, ctx := range map[codes.Code]context.Context{codes.DeadlineExceeded: past, codes.Canceled: gone} {
		before := logged.String()
		_, err := newLimit(t, stuck).Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary}, func(context.Context, any) (any, error) {
			t.Error("the handler runs")
			return nil, nil
		})
		if status.Code(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
		err = newLimit(t, stuck).Stream(nil, &fakeStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: bidi}, nil)
		if status.Code(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
		if changed := logged.String() != before; changed == (want == codes.Canceled) {
			t.Errorf("%v is logged: %t", want, changed)
		}
	}
}
