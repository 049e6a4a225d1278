package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Metrics are the observer of an engine, and a handler for Prometheus.
func ExampleNew() {
	metrics := telemetry.New(telemetry.Config{RuleSet: "api"})
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "everyone", Bands: []rules.Band{rules.PerHour(2)}}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithObserver(metrics)))
	limiter := metrics.Limiter(engine)
	for range 5 {
		if _, err := limiter.Check(context.Background(), &fluxgate.Request{Path: "/hello"}); err != nil {
			log.Fatal(err)
		}
	}

	answer := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "fluxgate_rule_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// fluxgate_rule_decisions_total{outcome="allowed",rule="everyone",rule_set="api"} 2
	// fluxgate_rule_decisions_total{outcome="limited",rule="everyone",rule_set="api"} 3
}
