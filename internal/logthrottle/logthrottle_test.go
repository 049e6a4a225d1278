package logthrottle_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// The first line is logged, others in the interval are counted, and the next one returns
// the count.
func TestThrottle_Allow(t *testing.T) {
	throttle, start := logthrottle.New(time.Minute), time.Now()
	for i, c := range []struct {
		after      time.Duration
		ok         bool
		suppressed int
	}{{0, true, 0}, {time.Second, false, 0}, {59 * time.Second, false, 0}, {time.Minute, true, 2}, {2 * time.Minute, true, 0}} {
		if ok, suppressed := throttle.Allow(start.Add(c.after)); ok != c.ok || suppressed != c.suppressed {
			t.Errorf("line %d: %t, %d", i, ok, suppressed)
		}
	}
}

// Log logs one line an interval, and how many were suppressed before it.
func TestThrottle_Log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		throttle, log := logthrottle.New(time.Minute), slog.New(slog.NewTextHandler(&said, nil))
		for range 5 {
			throttle.Log(t.Context(), log, slog.LevelWarn, "late", "by", 3)
			time.Sleep(20 * time.Second)
		}
		lines := strings.Split(said.String(), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[0], "level=WARN msg=late by=3") || !strings.HasSuffix(lines[1], "suppressed=2") {
			t.Errorf("logged %q", lines)
		}
	})
}
