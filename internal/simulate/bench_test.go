package simulate

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// BenchmarkRun is the time of one line under three rules.
func BenchmarkRun(b *testing.B) {
	set := fluxgate.Must(rules.NewSet("api-limits",
		rules.Rule{ID: "per-ip", Paths: []string{"/api/**"}, Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)}},
		rules.Rule{ID: "per-user", Paths: []string{"/api/**"}, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(50)}},
		rules.Rule{ID: "all", Bands: []rules.Band{rules.PerMinute(50_000)}},
	))
	for name, format := range map[string]string{
		"combined": `10.0.%d.%d - user%d [16/Nov/2026:15:%02d:%02d +0000] "GET /api/orders/17 HTTP/1.1" 200 512 "https://example.com/" "Mozilla/5.0 (X11; Linux x86_64)"` + "\n",
		"json":     `{"time":"2026-11-16T15:%02[4]d:%02[5]d.310Z","level":"info","ip":"10.0.%[1]d.%[2]d","user":"user%[3]d","method":"GET","path":"/api/orders/17","status":200}` + "\n",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var text bytes.Buffer
			for i := range b.N {
				at := i / 200
				fmt.Fprintf(&text, format, i*7919%40, i*104729%250, i*7919%500, at/60%60, at%60)
			}
			b.ResetTimer()
			report, err := Run(b.Context(), Config{Proposed: set, Logs: []Input{{"log", &text}}})
			if err != nil || report.Requests != int64(b.N) {
				b.Fatalf("%+v, %v", report, err)
			}
		})
	}
}
