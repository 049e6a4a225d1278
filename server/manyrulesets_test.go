package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A folder may have more than 1,000 files, and a server that keeps fewer rule sets than are in
// use decides all requests by their rules, without a log line for each.
func TestManyRuleSets(t *testing.T) {
	const files, kept, requests = 1_050, 20, 400
	dir := t.TempDir()
	writeRules(t, filepath.Join(dir, "default.yaml"), 1_000)
	for i := range files {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), fmt.Sprintf("id: set-%d\nrules: [{id: r, bands: [{capacity: 9, refill: 1h}]}]\n", i))
	}
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+dir, fmt.Sprintf("rules.max-rule-sets=%d", files+1))
	testenv.Eventually(t, fmt.Sprintf("the default rule set is loaded from %d files", files+1), func() bool { return len(log.Lines("ruleSet=api-limits revision")) == 1 })
	r.end(t)
	dir = t.TempDir()
	writeRules(t, filepath.Join(dir, "default.yaml"), 1_000)
	all := ""
	for i := range 2 * kept {
		all += fmt.Sprintf("---\nid: set-%d\nrules: [{id: r, bands: [{capacity: 900, refill: 1h}]}]\n", i)
	}
	write(t, filepath.Join(dir, "others.yaml"), all)
	r, log = startLogged(t, "redis.enabled=false", "rules.file="+dir, fmt.Sprintf("rules.max-rule-sets=%d", kept))
	for i := range requests {
		if d := r.do(t, http.MethodPost, "/v1/check", fmt.Sprintf(`{"ruleSet":"set-%d"}`, i%(2*kept))).object(t); d["reason"] != "ok" {
			t.Fatalf("request %d: %v", i, d)
		}
	}
	loaded, dropped := log.Lines("loaded a rule set"), log.Lines("dropped a rule set")
	if len(loaded) > requests/4 || len(dropped) != 1 {
		t.Errorf("%d lines about loaded and %d about dropped rule sets for %d requests", len(loaded), len(dropped), requests)
	}
}
