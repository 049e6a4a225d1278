package redisstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// While Redis is unavailable go-redis writes to slog at most once a second, and
// not to standard error. A logger that the program has set gets everything.
func TestOpen_ClientLog(t *testing.T) {
	for _, c := range []struct{ name, own string }{{"default", ""}, {"own logger", "yes"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			start := time.Now()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClientLog_Child$", "-test.v")
			child.Env = append(os.Environ(), clientLogChild+"=1", "FLUXGATE_TEST_OWN_LOGGER="+c.own)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			most := int(time.Since(start).Seconds()) + 1
			var ours, own, raw int
			for line := range strings.Lines(string(out)) {
				switch {
				case strings.Contains(line, "Redis client: "):
					ours++
				case strings.HasPrefix(line, "own: "):
					own++
				case strings.HasPrefix(line, "redis: "):
					raw++
				}
			}
			switch {
			case c.own != "" && (own == 0 || ours+raw > 0):
				t.Errorf("%d lines to the program's logger, %d to slog and %d of go-redis itself", own, ours, raw)
			case c.own == "" && (raw > 0 || ours == 0 || ours > most):
				t.Errorf("%d lines of go-redis itself, %d of ours; want none, and 1 to %d\n%s", raw, ours, most, out)
			}
		})
	}
}

// clientLogChild is set in the environment of the child.
const clientLogChild = "FLUXGATE_TEST_CLIENT_LOG"

type ownLogger struct{}

func (ownLogger) Printf(_ context.Context, format string, args ...any) {
	fmt.Printf("own: "+format+"\n", args...)
}

// The program that TestOpen_ClientLog runs.
func TestClientLog_Child(t *testing.T) {
	if os.Getenv(clientLogChild) == "" {
		t.Skip("TestOpen_ClientLog starts it")
	}
	if os.Getenv("FLUXGATE_TEST_OWN_LOGGER") != "" {
		redis.SetLogger(ownLogger{}) // as a program does, before it opens a store
	}
	proxy := testenv.StartProxy(t, testenv.StartStandalone(t, testenv.Config{}).Addr())
	s, err := Open(t.Context(), "redis://"+proxy.Addr(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	proxy.Refuse()
	proxy.Cut()
	demand := trialOf(t, s).demand(ample)
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		var outcome store.Outcome
		_ = s.Take(t.Context(), []store.Demand{demand}, &outcome)
	}
}
