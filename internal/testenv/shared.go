package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// uriVariable names the server that SharedStandalone uses instead of its own.
const uriVariable = "FLUXGATE_TEST_REDIS_URI"

// startTimeout bounds the start of a whole environment. It takes seconds; the
// rest is for machines with something else to do.
const startTimeout = time.Minute

// environment is one server or many that start and end together. It has no home
// if it is not ours.
type environment interface{ home() household }

// household is what an environment leaves to be shown and ended.
type household interface {
	report(testing.TB)
	close() error
}

// Suite is a test binary's tests together with the servers they share. It has
// the method that goleak.VerifyTestMain asks for:
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
	return code
}

// Main runs a test binary's tests and ends the servers they shared. A package
// that uses shared servers calls it from TestMain.
func Main(m *testing.M) { os.Exit(Suite{M: m}.Run()) }

var (
	suiteRuns  bool // whether someone will end the shared servers
	standalone shared[*Server]
	cluster    shared[*Cluster]
	sentinel   shared[*Sentinel]
	mongo      shared[*Mongo]
)

// SharedStandalone is the test binary's standalone server, or the one that
// FLUXGATE_TEST_REDIS_URI names. Tests use keys of their own and leave the rest
// alone.
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

// SharedCluster is the test binary's cluster. Tests that fail it over or migrate
// its slots start their own.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := cluster.get(tb, func(ctx context.Context) (*Cluster, error) { return startCluster(ctx, Config{}) })
	if err := c.WaitHealthy(tb.Context()); err != nil {
		tb.Fatalf("testenv: the shared cluster is not whole: %v", err)
	}
	return c
}

// SharedSentinel is the test binary's Sentinel group. Tests that fail it over
// start their own.
func SharedSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	s := sentinel.get(tb, func(ctx context.Context) (*Sentinel, error) { return startSentinel(ctx, Config{}) })
	if err := s.WaitHealthy(tb.Context()); err != nil {
		tb.Fatalf("testenv: the shared sentinels are not whole: %v", err)
	}
	return s
}

// shared is an environment that starts when the first test asks for it. A start
// that failed is not tried again: every test would wait for it.
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
		// Not the test's context: the environment outlives the test.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.env, s.err = start(ctx)
		s.started = true
	}
	if s.err != nil {
		tb.Fatalf("testenv: %v", s.err)
	}
	if g := s.env.home(); g != nil {
		tb.Cleanup(func() { g.report(tb) })
	}
	return s.env
}

func (s *shared[E]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil || s.env.home() == nil {
		return nil
	}
	return s.env.home().close()
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
		env.home().report(tb)
		if err := env.home().close(); err != nil {
			tb.Errorf("testenv: end the servers: %v", err)
		}
	})
	return env
}

func skipShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("testenv: -short leaves out the tests that need a server")
	}
}
