// Package telemetry is what others can measure of a server: metrics for
// Prometheus, traces over OTLP, and logs.
//
//	metrics, err := telemetry.New(telemetry.Config{RuleSet: "api-limits", Version: version})
//	...
//	engine, err := fluxgate.New(store, rules, fluxgate.WithObserver(metrics))
//	...
//	err = metrics.WatchRules(rules, 30*time.Second)
//	err = metrics.WatchStore(store.Health)
//	limiter := metrics.Limiter(engine)
//	mux.Handle("POST /v1/check", metrics.Route("POST /v1/check", check))
//	mux.Handle("GET /metrics", metrics.Handler())
//
// # What a caller can do to it
//
// Nothing. A label holds what we have given a name ourselves: rule sets that
// exist, rules that decided, routes that were registered, methods and reasons
// that are known. All of them are bounded in number, and what does not fit is
// counted under "other"; a rule set that does not exist under "unknown". No
// identity, path or header stands in a metric, a span or a log.
//
// # What it costs
//
// [Metrics] is on the path of every request: a decision is counted without an
// allocation and without a lock. Traces are off unless there is an endpoint,
// and then everything that would make them is left out of the path.
package telemetry
