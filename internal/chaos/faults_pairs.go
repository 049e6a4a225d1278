package chaos

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// pairs are faults that belong together: one makes the other likely, or hides it.
func pairs() []Fault {
	return []Fault{
		{Name: "Redis frozen, and the rule source killed", Under: "server", Losses: oneLoss, Setup: redisAndSource},
		// A missing script costs a second call: twice 50 ms is the deadline.
		{Name: "Redis slower by 50 ms, and SCRIPT FLUSH", Losses: oneLoss, Expect: Expect{Either: true}, Setup: slowAndFlushed},
		// The new server has no levels to begin with and counts from full buckets, and the
		// Redis that returns is empty: two losses.
		{Name: "Redis killed, and fluxgate restarted without it", Under: "server", Losses: 2, Expect: Expect{Errors: true}, Setup: redisAndServer},
		{Name: "cluster: master killed, and SCRIPT FLUSH on the others", Losses: oneLoss, Setup: masterAndScripts},
		{Name: "Redis with the rules killed, and pub/sub with it", Under: "server", Losses: oneLoss, Setup: redisWithRules},
	}
}

func redisAndSource(tb testing.TB) *Scene {
	tb.Helper()
	s := testenv.StartStandalone(tb, testenv.Config{})
	m, set := mongoRules(tb)
	d := StartDaemon(tb, "", append(set, "redis.uri="+s.URI())...)
	return &Scene{
		Path: d, Verify: d.verifyEdit(tb, d),
		Begin: func(context.Context) error { return errors.Join(m.Kill(), s.Freeze()) },
		End:   func(ctx context.Context) error { return errors.Join(m.Restart(ctx), s.Thaw()) },
	}
}

func slowAndFlushed(tb testing.TB) *Scene {
	tb.Helper()
	s := testenv.StartStandalone(tb, testenv.Config{})
	p := testenv.StartProxy(tb, s.Addr())
	var stop func() error
	return &Scene{
		Path: StartGateway(tb, "redis://"+p.Addr()),
		Begin: func(ctx context.Context) error {
			p.SetLatency(0, 50*time.Millisecond)
			stop = repeat(ctx, 10*time.Millisecond, func(ctx context.Context) error { return flush(ctx, s) })
			return nil
		},
		End: func(context.Context) error {
			p.SetLatency(0, 0)
			return stop()
		},
	}
}

func redisAndServer(tb testing.TB) *Scene {
	tb.Helper()
	s := testenv.StartStandalone(tb, testenv.Config{})
	d := StartDaemon(tb, "", append(fileRules(tb), "redis.uri="+s.URI())...)
	return &Scene{
		Path: d, Verify: d.verify,
		Begin: func(ctx context.Context) error {
			if err := errors.Join(s.Kill(), d.Kill()); err != nil {
				return err
			}
			return d.restart(ctx)
		},
		End: s.Restart,
	}
}

func masterAndScripts(tb testing.TB) *Scene {
	tb.Helper()
	c := testenv.StartCluster(tb, testenv.Config{})
	kill, promoted := takeMaster(c, (*testenv.Server).Kill)
	var stop func() error
	return &Scene{
		Path: StartGateway(tb, c.URI()), HealsItself: true,
		Begin: func(ctx context.Context) error {
			stop = repeat(ctx, 10*time.Millisecond, func(ctx context.Context) error {
				for _, n := range c.Nodes() {
					if n.Running() {
						_ = flush(ctx, n) // it may be killed now
					}
				}
				return nil
			})
			return kill(ctx)
		},
		End: func(ctx context.Context) error { return errors.Join(promoted(ctx), stop()) },
	}
}

// redisWithRules kills a Redis that has the rules too and keeps them on disk.
func redisWithRules(tb testing.TB) *Scene {
	tb.Helper()
	s := testenv.StartStandalone(tb, testenv.Config{Persist: true})
	d := startWithRulesInRedis(tb, s, wholeLimit)
	editor := StartDaemon(tb, "", "mongo.enabled=false", "redis.uri="+s.URI(), wholeLimit)
	return &Scene{
		Path: d, Verify: d.verifyEdit(tb, editor),
		Begin: func(context.Context) error { return s.Kill() },
		End:   s.Restart,
	}
}

func flush(ctx context.Context, s *testenv.Server) error {
	_, err := s.Do(ctx, "SCRIPT", "FLUSH")
	return err
}
