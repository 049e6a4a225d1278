package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The timeout also bounds a connection that is neither opened nor refused,
// though the client would wait for seconds.
func TestTimeout_Dial(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, server.Addr())
	var gone atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	defer client.Close()
	const timeout = 200 * time.Millisecond
	s, err := New(t.Context(), client, Config{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	band, err := rules.PerHour(100).Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	demands := []store.Demand{{Bands: []store.ExactBand{band}, Cost: 1}}
	var out store.Outcome
	until(t, "Redis decides", func() bool { return s.Take(t.Context(), demands, &out) == nil })
	stalls := testenv.WatchStalls(t)
	gone.Store(true)
	for range 3 {
		proxy.Cut() // again: a connection may have been on its way
		start := time.Now()
		err := s.Take(t.Context(), demands, &out)
		elapsed := stalls.Since(start)
		t.Logf("%v after %v", err, elapsed.Round(time.Millisecond))
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("error %v, want %v", err, ErrUnavailable)
		}
		if elapsed > 3*timeout {
			t.Errorf("a decision took %v with a timeout of %v", elapsed, timeout)
		}
	}
}
