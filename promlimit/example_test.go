package promlimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/promlimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func Example() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics := promlimit.New("api-limits")
	registry.MustRegister(metrics)

	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{ID: "everyone", Bands: []rules.Band{rules.PerHour(60).Burst(2)}}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithObserver(metrics)))
	limiter := metrics.Limiter(engine)
	for range 5 {
		fluxgate.Must(limiter.Check(context.Background(), &fluxgate.Request{Path: "/hello"}))
	}

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "fluxgate_rule_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// fluxgate_rule_decisions_total{outcome="allowed",rule="everyone",rule_set="api-limits"} 2
	// fluxgate_rule_decisions_total{outcome="limited",rule="everyone",rule_set="api-limits"} 3
}
