// Package telemetry observes a server: metrics for Prometheus, traces over OTLP,
// and logs.
//
//	metrics := telemetry.New(telemetry.Config{RuleSet: "api-limits", Version: version})
//	engine, err := fluxgate.New(store, rules, fluxgate.WithObserver(metrics))
//	...
//	metrics.WatchRules(rules, 30*time.Second)
//	metrics.WatchStore(store.Health)
//	limiter := metrics.Limiter(engine)
//	mux.Handle("POST /v1/check", metrics.Route("POST /v1/check", check))
//	mux.Handle("GET /metrics", metrics.Handler())
//
// # Bounded labels
//
// No caller can add a label value: rule sets in labels exist, rules have decided,
// routes are registered, methods and reasons are known ones. Rule sets and rules
// are bounded in number; further ones are counted under "other", and rule sets
// that do not exist under "unknown". No metric, span or log line contains an
// identity, a path or a header.
//
// # Cost
//
// [Metrics] is called for every request: it counts a decision without an
// allocation. Without an endpoint for traces, requests run no tracing code.
package telemetry
