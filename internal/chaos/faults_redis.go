package chaos

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Each outage of Redis is one loss of state: a gateway counts locally from the level
// that it last saw, and Redis may refill in that time and hand the same tokens out
// again before the gateway has charged them. A Redis that returns empty loses no
// more than that: its full bucket replaces the one that refilled.
const oneLoss = 1

// Faults returns every fault of the suite.
func Faults() []Fault {
	return slices.Concat(redisFaults(), clusterFaults(), serverFaults(), ruleFaults(), diskFaults(), clockFaults(), pairs())
}

func redisFaults() []Fault {
	faults := []Fault{
		onRedis("Redis killed, later restarted empty", oneLoss, Expect{},
			func(_ context.Context, s *testenv.Server) error { return s.Kill() },
			func(ctx context.Context, s *testenv.Server) error { return s.Restart(ctx) }),
		onRedis("Redis frozen", oneLoss, Expect{},
			func(_ context.Context, s *testenv.Server) error { return s.Freeze() },
			func(_ context.Context, s *testenv.Server) error { return s.Thaw() }),
		onRedis("Redis restarted empty at once", oneLoss, Expect{Either: true},
			func(ctx context.Context, s *testenv.Server) error {
				if err := s.Kill(); err != nil {
					return err
				}
				return s.Restart(ctx)
			}, nil),
		paused(),
		onRedis("Redis out of memory, noeviction", oneLoss, Expect{},
			func(ctx context.Context, s *testenv.Server) error { return limitMemory(ctx, s, "1") },
			func(ctx context.Context, s *testenv.Server) error { return limitMemory(ctx, s, "0") }),
		evicting(),
		readOnly(),
		flushing(),
	}
	faults[0].Short, faults[1].Short = true, true
	for _, ms := range []int{5, 50, 150, 500} {
		faults = append(faults, slow(time.Duration(ms)*time.Millisecond))
	}
	return append(faults,
		onProxy("connections to Redis black-holed", oneLoss, Expect{},
			func(p *testenv.Proxy) { p.Blackhole(true) },
			func(p *testenv.Proxy) { p.Blackhole(false) }),
		onProxy("connections to Redis cut in the middle of a reply", oneLoss, Expect{},
			func(p *testenv.Proxy) { p.TruncateReplies(true) },
			func(p *testenv.Proxy) { p.TruncateReplies(false) }),
	)
}

// onRedis is a fault of one Redis server, under the middleware.
func onRedis(name string, losses int, expect Expect, begin, end func(context.Context, *testenv.Server) error) Fault {
	return Fault{Name: name, Losses: losses, Expect: expect, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		scene := &Scene{Path: StartGateway(tb, s.URI()), Begin: func(ctx context.Context) error { return begin(ctx, s) }}
		if end != nil {
			scene.End = func(ctx context.Context) error { return end(ctx, s) }
		}
		return scene
	}}
}

// onProxy is a fault of the network between the middleware and Redis.
func onProxy(name string, losses int, expect Expect, begin, end func(*testenv.Proxy)) Fault {
	return Fault{Name: name, Losses: losses, Expect: expect, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		p := testenv.StartProxy(tb, s.Addr())
		return &Scene{
			Path:  StartGateway(tb, "redis://"+p.Addr()),
			Begin: func(context.Context) error { begin(p); return nil },
			End:   func(context.Context) error { end(p); return nil },
		}
	}}
}

// slow delays what Redis answers. Far below the deadline no decision may be
// degraded, above it all are. At half of it some are, until the store has opened more
// connections and has more calls in flight.
func slow(by time.Duration) Fault {
	expect, losses := Expect{Unnoticed: true}, 0
	switch {
	case by > 100*time.Millisecond:
		expect, losses = Expect{}, oneLoss
	case by >= 50*time.Millisecond:
		expect, losses = Expect{Either: true}, oneLoss
	}
	f := onProxy(fmt.Sprintf("Redis slower by %v", by), losses, expect,
		func(p *testenv.Proxy) { p.SetLatency(0, by) },
		func(p *testenv.Proxy) { p.SetLatency(0, 0) })
	f.Short = by == 150*time.Millisecond
	return f
}

// paused stops Redis with CLIENT PAUSE, which only time ends: a paused server
// executes no CLIENT UNPAUSE either.
func paused() Fault {
	const pausedFor = 5 * time.Second
	return onRedis("Redis paused (CLIENT PAUSE)", oneLoss, Expect{},
		func(ctx context.Context, s *testenv.Server) error {
			_, err := s.Do(ctx, "CLIENT", "PAUSE", pausedFor.Milliseconds(), "ALL")
			return err
		},
		func(ctx context.Context, s *testenv.Server) error {
			_, err := s.Do(ctx, "PING") // answered when the pause ends
			return err
		})
}

// flushing removes the scripts all the time: each call repairs itself, so no
// decision is degraded and no state is lost.
func flushing() Fault {
	var stop func() error
	f := onRedis("SCRIPT FLUSH, a thousand a second", 0, Expect{Unnoticed: true},
		func(ctx context.Context, s *testenv.Server) error {
			stop = repeat(ctx, time.Millisecond, func(ctx context.Context) error { return flush(ctx, s) })
			return nil
		},
		func(context.Context, *testenv.Server) error { return stop() })
	return f
}

// repeat calls f at an interval until the returned function is called, which returns
// the first error. It does not end with ctx, which is that of Begin.
func repeat(ctx context.Context, interval time.Duration, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*faultTimeout)
	var work sync.WaitGroup
	var failed error
	work.Go(func() {
		for ctx.Err() == nil {
			if err := f(ctx); err != nil && ctx.Err() == nil && failed == nil {
				failed = err
			}
			pause(ctx, interval)
		}
	})
	return func() error {
		cancel()
		work.Wait()
		return failed
	}
}

// evicting fills Redis up while it may evict any key. Each evicted bucket is a loss
// of state: the scene counts them.
func evicting() Fault {
	return Fault{Name: "Redis out of memory, allkeys-random", Expect: Expect{Unnoticed: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{Directives: []string{"maxmemory-policy allkeys-random"}})
		const room, size = 1 << 20, 100 << 10
		others := make([]string, 3*room/size)
		for i := range others {
			others[i] = fmt.Sprintf("other-%d", i)
		}
		lost := 0
		return &Scene{
			Path: StartGateway(tb, s.URI()),
			Begin: func(ctx context.Context) error {
				info, err := s.Info(ctx, "memory")
				if err != nil {
					return err
				}
				used, err := strconv.Atoi(info["used_memory"])
				if err != nil {
					return err
				}
				if err := limitMemory(ctx, s, strconv.Itoa(used+room)); err != nil {
					return err
				}
				value := make([]byte, size)
				for _, key := range others {
					if _, err := s.Do(ctx, "SET", key, value); err != nil {
						return err
					}
				}
				return nil
			},
			End: func(ctx context.Context) (err error) {
				if lost, err = evictedBuckets(ctx, s, others); err != nil {
					return err
				}
				return limitMemory(ctx, s, "0")
			},
			Lost: func() int { return lost },
		}
	}}
}

// evictedBuckets returns how many keys were evicted besides others.
func evictedBuckets(ctx context.Context, s *testenv.Server, others []string) (int, error) {
	info, err := s.Info(ctx, "stats")
	if err != nil {
		return 0, err
	}
	evicted, err := strconv.Atoi(info["evicted_keys"])
	if err != nil {
		return 0, err
	}
	exists := []any{"EXISTS"}
	for _, key := range others {
		exists = append(exists, key)
	}
	left, err := s.Do(ctx, exists...)
	if err != nil {
		return 0, err
	}
	return evicted - (len(others) - int(left.(int64))), nil
}

// readOnly makes Redis a replica, as after a failover that the gateway missed. It
// copies the state of its new, empty master.
func readOnly() Fault {
	return Fault{Name: "READONLY: Redis became a replica", Losses: oneLoss, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s, other := testenv.StartStandalone(tb, testenv.Config{}), testenv.StartStandalone(tb, testenv.Config{})
		return &Scene{
			Path: StartGateway(tb, s.URI()),
			Begin: func(ctx context.Context) error {
				host, port := split(other.Addr())
				_, err := s.Do(ctx, "REPLICAOF", host, port)
				return err
			},
			End: func(ctx context.Context) error {
				_, err := s.Do(ctx, "REPLICAOF", "NO", "ONE")
				return err
			},
		}
	}}
}

// limitMemory sets the memory of Redis in bytes; "0" means no limit.
func limitMemory(ctx context.Context, s *testenv.Server, bytes string) error {
	_, err := s.Do(ctx, "CONFIG", "SET", "maxmemory", bytes)
	return err
}

func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}
