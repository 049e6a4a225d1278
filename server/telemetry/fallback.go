package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
)

// WatchFallback reports the tokens of the fallback, and how many servers share the
// store, 0 if unknown.
func (m *Metrics) WatchFallback(stats func() fluxgate.FallbackStats, servers func() int) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		s := stats()
		out <- counter(desc("fallback_admitted_tokens_total", "Tokens granted in the process while Redis was unavailable."), s.Admitted)
		out <- counter(desc("fallback_charged_tokens_total", "Tokens granted in the process and debited from Redis later."), s.Charged)
		out <- counter(desc("fallback_uncharged_tokens_total", "Tokens granted in the process that were not debited from Redis: "+
			"the bucket was empty, the reply was lost, the rule changed, or more than 100,000 buckets were in use."), s.Uncharged)
		out <- counter(desc("fallback_lost_settlements_total", "Settlements that did not reach Redis and are not sent again: "+
			"more than 10,000 waited, the reply was lost, or the original charge is unknown."), s.LostSettlements)
		out <- gauge(desc("fallback_pending_tokens",
			"Tokens granted in the process and not yet debited from Redis; tokens that refill until then are not debited."),
			float64(s.Pending))
		out <- gauge(desc("fallback_pending_settlements", "Settlements that wait until Redis is available."), float64(s.PendingSettlements))
		if n := servers(); n > 0 {
			out <- gauge(desc("fleet_servers", "Servers that share Redis: the last count, or an assumption before the first count. "+
				"fallback-share auto is 1 divided by it. If it is lower than the servers that you run, some do not reach Redis. "+
				"Absent while unknown."), float64(n))
		}
	}))
}
