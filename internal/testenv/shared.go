package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// uriVariable names the server that SharedStandalone uses instead of its own.
const uriVariable = "FLUXGATE_TEST_REDIS_URI"

// startTimeout bounds the start of a whole environment. It takes seconds, but longer on a
// busy machine.
const startTimeout = time.Minute

// environment has servers that start and end together. Its lifecycle is nil if this
// package did not start them.
type environment interface{ lifecycle() lifecycle }

// lifecycle reports and ends the servers of an environment.
type lifecycle interface {
	report(testing.TB)
	close() error
}

// Suite has a test binary's tests and the servers they share. It implements the
// interface of goleak.VerifyTestMain:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }
type Suite struct{ M *testing.M }

// Run runs the tests, ends the shared servers and returns the exit code.
func (s Suite) Run() int {
	suiteRuns = true
	code := s.M.Run()
	err := errors.Join(standalone.close(), cluster.close(), sentinel.close(), mongo.close())
	if err != nil {
		fmt.Fprintf(os.Stderr, "testenv: end the shared servers: %v\n", err)
		return 1
	}
	untilDialsEnd()
	return code
}

// untilDialsEnd waits for clients of Redis that are closed. One that found its server gone
// dials once a second, and sees only then that it was closed: goleak would report it.
func untilDialsEnd() {
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(eventuallyLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("pool.(*ConnPool).tryDial")) {
			return
		}
	}
}

// Main runs a test binary's tests and ends the shared servers. A package that uses shared
// servers calls it from TestMain.
func Main(m *testing.M) { os.Exit(Suite{M: m}.Run()) }

var (
	suiteRuns  bool // whether Suite.Run will end the shared servers
	standalone shared[*Server]
	cluster    shared[*Cluster]
	sentinel   shared[*Sentinel]
	mongo      shared[*Mongo]
)

// SharedStandalone returns the test binary's standalone server, or the one of
// FLUXGATE_TEST_REDIS_URI. Tests must use their own keys.
func SharedStandalone(tb testing.TB) *Server {
	tb.Helper()
	s := standalone.get(tb, ownOrForeign)
	if _, err := s.Do(tb.Context(), "PING"); err != nil {
		tb.Fatalf("testenv: the shared server does not answer: %v", err)
	}
	return s
}

func ownOrForeign(ctx context.Context) (*Server, error) {
	uri := os.Getenv(uriVariable)
	if uri == "" {
		return startStandalone(ctx, Config{})
	}
	s, err := foreignServer(uri)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uriVariable, err)
	}
	return s, nil
}

// SharedCluster returns the test binary's cluster. Tests that fail over or migrate slots
// start their own.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	// No test fails its nodes over: a busy machine must not either.
	c := cluster.get(tb, func(ctx context.Context) (*Cluster, error) {
		return startCluster(ctx, Config{NodeTimeout: 15 * time.Second})
	})
	if err := c.WaitHealthy(tb.Context()); err != nil {
		tb.Fatalf("testenv: the shared cluster is not healthy: %v", err)
	}
	return c
}

// SharedSentinel returns the test binary's Sentinel group. Tests that fail over start
// their own.
func SharedSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	s := sentinel.get(tb, func(ctx context.Context) (*Sentinel, error) { return startSentinel(ctx, Config{}) })
	if err := s.WaitHealthy(tb.Context()); err != nil {
		tb.Fatalf("testenv: the shared sentinels are not healthy: %v", err)
	}
	return s
}

// shared is an environment that starts when a test first needs it. A failed start is not
// repeated, because every test would wait for it.
type shared[E environment] struct {
	mu      sync.Mutex
	started bool
	env     E
	err     error
}

func (s *shared[E]) get(tb testing.TB, start func(context.Context) (E, error)) E {
	tb.Helper()
	skipShort(tb)
	if !suiteRuns {
		tb.Fatal("testenv: shared servers need func TestMain(m *testing.M) { testenv.Main(m) } to end them")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		// The environment outlives the test and its context.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.env, s.err = start(ctx)
		s.started = true
	}
	if s.err != nil {
		tb.Fatalf("testenv: %v", s.err)
	}
	if g := s.env.lifecycle(); g != nil {
		tb.Cleanup(func() { g.report(tb) })
	}
	return s.env
}

func (s *shared[E]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil || s.env.lifecycle() == nil {
		return nil
	}
	return s.env.lifecycle().close()
}

// start starts an environment for one test.
func start[E environment](tb testing.TB, cfg Config, f func(context.Context, Config) (E, error)) E {
	tb.Helper()
	skipShort(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	env, err := f(ctx, cfg)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() {
		env.lifecycle().report(tb)
		if err := env.lifecycle().close(); err != nil {
			tb.Errorf("testenv: end the servers: %v", err)
		}
	})
	return env
}

func skipShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("testenv: -short skips tests that need a server")
	}
}
