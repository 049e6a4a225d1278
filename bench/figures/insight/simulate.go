// Package insight measures what operators see: live numbers, and simulations. See make
// figures-insight.
package insight

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/simulate"
	"github.com/fluxgate/fluxgate/rules"
)

const (
	simulatedLines  = 300_000
	simulatedRounds = 7
)

// SimulateLinesPerSecond is how many lines of an access log a core replays in a second,
// under three rules that all apply to each of them. It is counted in time of the
// processor: the machine may be busy with other work.
func SimulateLinesPerSecond(ctx context.Context) (float64, error) {
	set, err := rules.NewSet("api-limits",
		rules.Rule{ID: "per-ip", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)}},
		rules.Rule{ID: "per-user", Paths: []string{"/api/**"}, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(50)}},
		rules.Rule{ID: "all", Bands: []rules.Band{rules.PerMinute(10_000)}},
	)
	if err != nil {
		return 0, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	log := accessLog(simulatedLines)
	median := figure.Median(simulatedRounds, func() float64 {
		before := processorTime()
		report, failed := simulate.Run(ctx, simulate.Config{Proposed: set, Logs: []simulate.Input{{Name: "access.log", Reader: strings.NewReader(log)}}})
		used := processorTime() - before
		switch {
		case failed != nil:
			err = failed
		case report.Requests != simulatedLines || report.Limited == 0:
			err = fmt.Errorf("%d requests, %d limited", report.Requests, report.Limited)
		}
		return simulatedLines / used.Seconds()
	})
	return median, err
}

// accessLog has 200 requests a second of 10,000 addresses and 500 users.
func accessLog(lines int) string {
	var b strings.Builder
	start := time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC)
	for i := range lines {
		at := start.Add(time.Duration(i/200) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
		who := i * 7919
		fmt.Fprintf(&b, "10.0.%d.%d - user%d [%s] \"GET /api/orders/%d?page=2 HTTP/1.1\" 200 512 \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\"\n",
			who%40, who/40%250, who%500, at, i%1000)
	}
	return b.String()
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
