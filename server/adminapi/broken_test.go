package adminapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Reads of an invalid rules file are a 503 with the problems of the file, except for a
// caller that is limited to one of its rule sets. They do not claim that the server has other rules.
func TestRead_BrokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	const broken = "ruleSets:\n  - {id: mine, rules: []}\n  - {id: secret, rules: [{id: secret-rule, bands: [{capacity: two, refill: 1s}]}]}\n"
	do(t, os.WriteFile(file, []byte(broken), 0o600))
	source, err := filerules.Open(file, filerules.Config{})
	do(t, err)
	r := start(t, func(s *settings) { s.source = admin.ReadOnly(source) })
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/rule-sets", ""},
		{http.MethodGet, mine, ""},
		{http.MethodGet, mine + "/rules", ""},
		{http.MethodGet, mine + "/revisions", ""},
		{http.MethodGet, mine + "/diff", ""},
		{http.MethodPost, mine + "/explain", `{"userId":"u"}`},
		{http.MethodPost, mine + "/effective", `{"userId":"u"}`},
		{http.MethodPost, mine + "/buckets/peek", `{"request":{"userId":"u"}}`},
	} {
		for _, token := range []string{tokenRead, tokenOne} {
			got := r.send(t, c.method, c.path, c.body, "Authorization", "Bearer "+token)
			if got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "body.") || strings.Contains(got.body, "rules.yaml:3:") != (token == tokenRead) ||
				token == tokenOne && strings.Contains(got.body, "secret") || !strings.Contains(got.body, "revision, if the server has one, stays") {
				t.Errorf("%s %s with %s: %d %s", c.method, c.path, token, got.status, got.body)
			}
		}
	}
}

// A change while a rules file is invalid shows a caller that is limited to one rule set nothing of the others.
func TestChange_BrokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	const broken = "ruleSets:\n  - {id: mine, rules: []}\n  - {id: secret, rules: [{id: secret-rule, bands: [{capacity: two, refill: 1s}]}]}\n"
	do(t, os.WriteFile(file, []byte(broken), 0o600))
	source, err := filerules.Open(file, filerules.Config{})
	do(t, err)
	r := start(t, func(s *settings) { s.source = admin.ReadOnly(source) })
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, mine, setOf("mine", 5)},
		{http.MethodDelete, mine, ""},
		{http.MethodPut, mine + "/rules/one", ruleOf("one", 5)},
		{http.MethodPost, mine + "/revisions/1/restore", ""},
		{http.MethodPost, mine + "/buckets/reset", `{"rule":"one"}`},
		{http.MethodPost, mine + "/buckets/reset", `{"request":{"userId":"u"},"rule":"one"}`},
		{http.MethodPut, mine + "/overrides", `{"overrides":[{"ruleId":"one","identity":{"userId":"u"},"times":2}]}`},
	} {
		got := r.send(t, c.method, c.path, c.body, "Authorization", "Bearer "+tokenOne, "If-Match", `"1"`)
		if got.status < http.StatusBadRequest || strings.Contains(got.body, "secret") || strings.Contains(got.body, "capacity") {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
}
