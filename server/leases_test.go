package server_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const leasedRules = `id: api-limits
rules:
  - {id: busy, limitScope: USER_ID, path: /orders, bands: [{label: all, capacity: 100000, refillTokens: 200, refill: 1s}]}
  - {id: small, limitScope: USER_ID, path: /small, bands: [{capacity: 1, refill: 1h}]}
  - {id: strict, limitScope: USER_ID, path: /strict, consistency: strict, bands: [{capacity: 1, refill: 1h}]}
`

// A server with Redis answers busy and blocked callers from memory, and says so in
// decisions, headers, metrics and explanations.
func TestLeases_Default(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, leasedRules)
	r := start(t, "redis.uri="+redis.URI(), "rules.file="+file)
	check := func(path string) map[string]any {
		return r.do(t, http.MethodPost, "/v1/check", `{"userId":"ada","path":"`+path+`"}`).object(t)
	}
	var d map[string]any
	testenv.Eventually(t, "a slice is spent", func() bool {
		d = check("/orders")
		return d["source"] == "lease"
	})
	band := d["bands"].([]any)[0].(map[string]any)
	if left := d["remaining"].(float64); d["allowed"] != true || band["source"] != "lease" || left >= 100_000 || left < 90_000 {
		t.Errorf("an answer from a slice: %v", d)
	}
	testenv.Eventually(t, "a blocked caller is refused from memory", func() bool {
		d = check("/small")
		return d["allowed"] == false && d["source"] == "negative-cache"
	})
	for range 5 {
		if d = check("/strict"); d["source"] != "store" {
			t.Errorf("an answer under a strict rule: %v", d)
		}
	}
	metrics := r.do(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`fluxgate_lease_saved_calls_total{by="refusal"} `, `fluxgate_lease_saved_calls_total{by="slice"} `, `fluxgate_lease_slices_total `,
		`outcome="allowed",rule_set="api-limits",source="lease"`, `outcome="limited",rule_set="api-limits",source="negative-cache"`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	explained := r.do(t, http.MethodPost, "http://"+r.Addr("admin")+"/v1/rule-sets/api-limits/explain", `{"userId":"ada","path":"/orders"}`)
	for _, want := range []string{`"fromMemory":"rejections and local tokens"`, `"fromMemory":"rejections; no local tokens: capacity 1 is below 40"`, `"fromMemory":"none: consistency is strict"`} {
		if !strings.Contains(explained.body, want) {
			t.Errorf("%s is not in %s", want, explained.body)
		}
	}
}

// With redis.leases off Redis decides every request.
func TestLeases_Off(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r := start(t, "redis.uri="+redis.URI(), "redis.leases=off", "rules.file="+rulesFile(t, 100))
	for range 150 {
		if d := r.check(t, "ada"); d["source"] != "store" {
			t.Fatalf("%v", d)
		}
	}
	if metrics := r.do(t, http.MethodGet, "/metrics", "").body; strings.Contains(metrics, "fluxgate_lease_") {
		t.Error("there are metrics of leases")
	}
}
