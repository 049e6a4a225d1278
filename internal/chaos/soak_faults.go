package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// soakScene is a server whose Redis, network and rules have faults that do not end
// the process.
type soakScene struct {
	redis  *testenv.Server
	proxy  *testenv.Proxy
	daemon *Daemon
	rules  *soakRules
}

// soakTimeout is longer than the default: otherwise a busy machine fails decisions while the
// server is measured, and what the server keeps of them would look like a leak.
const soakTimeout = 300 * time.Millisecond

func startSoakScene(tb testing.TB) *soakScene {
	tb.Helper()
	s := &soakScene{redis: testenv.StartStandalone(tb, testenv.Config{}), rules: &soakRules{file: filepath.Join(tb.TempDir(), "rules.yaml")}}
	if err := s.rules.edit(); err != nil {
		tb.Fatal(err)
	}
	tb.Setenv("GOGC", "50") // collections are frequent: those of a measurement take seconds, not minutes
	s.proxy = testenv.StartProxy(tb, s.redis.Addr())
	s.daemon = StartDaemon(tb, "", "redis.uri=redis://"+s.proxy.Addr(), "rules.file="+s.rules.file, "mongo.enabled=false",
		"redis.timeout="+soakTimeout.String(), "reload.polling-interval=500ms", "wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=2s", "server.admin-rate=1000000",
		fmt.Sprintf("redis.pool.max-idle=%d", soakCallers), fmt.Sprintf("redis.pool.min-idle=%d", soakCallers))
	return s
}

// soakFault is a fault that begins and ends any number of times.
type soakFault struct {
	name       string
	begin, end func(context.Context) error
}

func (s *soakScene) faults() []soakFault {
	faults := []soakFault{
		{"Redis killed, restarted empty", func(context.Context) error { return s.redis.Kill() }, s.redis.Restart},
		{"Redis frozen", func(context.Context) error { return s.redis.Freeze() }, func(context.Context) error { return s.redis.Thaw() }},
		{"Redis paused", s.command("CLIENT", "PAUSE", 500, "ALL"), s.command("PING")}, // answered when the pause ends
		{"Redis out of memory", s.command("CONFIG", "SET", "maxmemory", 1), s.command("CONFIG", "SET", "maxmemory", 0)},
		s.flushing(),
		{"connections refused and cut", func(context.Context) error { s.proxy.Refuse(); s.proxy.Cut(); return nil },
			func(context.Context) error { return s.proxy.Accept() }},
		{"connections forgotten by a firewall", func(context.Context) error { s.proxy.Mute(); return nil }, nil},
		{"connections cut", func(context.Context) error { s.proxy.Cut(); return nil }, nil},
		{"connections black-holed", func(context.Context) error { s.proxy.Blackhole(true); return nil },
			func(context.Context) error { s.proxy.Blackhole(false); return nil }},
		{"replies cut in the middle", func(context.Context) error { s.proxy.TruncateReplies(true); return nil },
			func(context.Context) error { s.proxy.TruncateReplies(false); return nil }},
		{"rule file garbage", func(context.Context) error { return s.rules.setGarbage(true) }, func(context.Context) error { return s.rules.setGarbage(false) }},
		{"server frozen", func(context.Context) error { return s.daemon.Freeze() }, func(context.Context) error { return s.daemon.Thaw() }},
	}
	for _, by := range []time.Duration{5 * time.Millisecond, soakTimeout / 2, 3 * soakTimeout / 2, 5 * soakTimeout} {
		faults = append(faults, soakFault{fmt.Sprintf("Redis slower by %v", by),
			func(context.Context) error { s.proxy.SetLatency(0, by); return nil },
			func(context.Context) error { s.proxy.SetLatency(0, 0); return nil }})
	}
	return faults
}

// command returns a function that sends a command to Redis.
func (s *soakScene) command(args ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.redis.Do(ctx, args...)
		return err
	}
}

func (s *soakScene) flushing() soakFault {
	var stop func() error
	return soakFault{"SCRIPT FLUSH", func(ctx context.Context) error {
		stop = repeat(ctx, time.Millisecond, s.command("SCRIPT", "FLUSH"))
		return nil
	}, func(context.Context) error { return stop() }}
}

// soakRules is the rule file of a server, which is edited all the time.
type soakRules struct {
	file string

	mu      sync.Mutex
	edits   int
	garbage bool
}

// edit writes the next version, whose numbers differ.
func (r *soakRules) edit() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edits++
	return r.write()
}

// setGarbage makes the file unreadable, or readable again.
func (r *soakRules) setGarbage(garbage bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.garbage = garbage
	return r.write()
}

// write replaces the file at once, as an editor does.
func (r *soakRules) write() error {
	text := "id: [garbage"
	if !r.garbage {
		text = fmt.Sprintf(`
id: %s
rules:
  - {id: everyone, path: /everyone/**, bands: [{label: burst, capacity: %d, refill: 1s}]}
  - {id: per-user, limitScope: USER_ID, bands: [{label: second, capacity: %d, refill: 1s}, {label: minute, capacity: 600, refill: 1m}]}
  - {id: per-address, path: /orders/**, limitScope: IP, bands: [{label: burst, capacity: 20, refill: 2s}], onFailure: open}
  - {id: queue, path: /queue/**, limitScope: USER_ID, onLimitExceed: WAIT_FOR_REFILL, bands: [{label: burst, capacity: 2, refill: 1s}]}
  - {id: strict, path: /strict/**, limitScope: API_KEY, bands: [{label: burst, capacity: 50, refill: 1s}], onFailure: closed}
  - {id: kinds, path: /kinds/**, limitScope: USER_ID, bands: [{label: day, kind: quota, capacity: 500, period: day}, {label: window, kind: sliding-window, capacity: 5, period: 1s}, {label: slots, kind: concurrency, capacity: 2, hold: 1s}]}
  - {id: shadow, mode: shadow, limitScope: USER_ID, bands: [{label: burst, capacity: 5, refill: 1s}]}
`, ruleSetID, 100+r.edits%7, 10+r.edits%5)
	}
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.file)
}
