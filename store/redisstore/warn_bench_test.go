package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// BenchmarkWarnAt is a strict decision on a quota with thresholds, below them and above, against
// one without.
func BenchmarkWarnAt(b *testing.B) {
	buckets := openStore(b, testenv.SharedStandalone(b).URI(), Config{Timeout: time.Second})
	for _, c := range []struct {
		name   string
		warnAt rules.Percents
		used   int64
	}{{"without", rules.Percents{}, 0}, {"below", rules.Percents{80, 100}, 0}, {"above", rules.Percents{80, 100}, 900_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			rule := rules.Rule{ID: c.name, Scope: rules.ScopeUser, Consistency: rules.ConsistencyStrict, Bands: []rules.Band{
				{Kind: rules.Quota, Capacity: 1_000_000_000, Period: "month", WarnAt: c.warnAt},
			}}
			set := fluxgate.Static(fluxgate.Must(rules.NewSet("bench", rule)))
			engine := fluxgate.Must(fluxgate.New(buckets, set, fluxgate.WithRuleSet("bench")))
			user := fmt.Sprint(time.Now().UnixNano())
			check := func(cost int64) {
				if d, err := engine.Check(b.Context(), &fluxgate.Request{UserID: user, Cost: cost}); err != nil || !d.Allowed || d.Degraded {
					b.Fatal(d.Reason, d.Degraded, err)
				}
			}
			check(c.used + 1)
			b.ReportAllocs()
			for b.Loop() {
				check(1)
			}
		})
	}
}
