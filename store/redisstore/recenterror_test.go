package redisstore

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// A warning that is dropped from a full list is logged, and health says so.
func TestRecentError_DroppedWarning(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, srv.URI(), Config{Logger: log.Logger()})
	fill := func(n int) {
		t.Helper()
		_, err := srv.Do(t.Context(), "EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'warning', '{}') end",
			1, s.warnings(0, "pending"), n)
		must(t, err)
	}
	warn := func(percent int) {
		t.Helper()
		now := time.Now()
		must(t, s.Warn(t.Context(), &store.Warning{
			Key: store.Key{RuleSet: "llm", Rule: "budget"}, Percent: percent, At: now.UnixMicro(), Ends: now.Add(time.Hour).UnixMicro(),
		}))
	}
	page, err := os.ReadFile("../../docs/redis.md")
	must(t, err)
	if key := s.warnings(0, "pending"); !strings.Contains(string(page), key+" ") {
		t.Errorf("docs/redis.md does not name the key %s", key)
	}
	fill(maxPending - 1)
	warn(80)
	if h := s.Health(t.Context()); h.Err != nil || len(log.Lines("dropped a warning")) != 0 {
		t.Fatalf("before the list is full, health says %v, and logged is %s", h.Err, log.String())
	}
	warn(90)
	warn(100)
	const want = `too many warnings are pending: one of rule "budget" of rule set "llm" replaced the oldest`
	if h := s.Health(t.Context()); h.Err == nil || h.Err.Error() != want {
		t.Errorf("health says %v", h.Err)
	}
	if lines := log.Lines("dropped a warning"); len(lines) != 1 || !strings.Contains(lines[0], "llm") {
		t.Errorf("logged %q", lines)
	}
}
