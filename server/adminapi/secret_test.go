package adminapi_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// API keys are in no answer, log or audit, wherever they were sent.
func TestSecret_NotShown(t *testing.T) {
	const key = "sk-live-4f9a8b7c6d5e"
	var log testenv.LogBuffer
	r := start(t, listening(&log))
	r.create(t, mine, setOf("mine", 5))
	rule := func(when string) string {
		return `{"id":"mine-0","when":{` + when + `},"bands":[{"capacity":1,"refill":"1h"}]}`
	}
	asked := 0
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{mine + "/explain", `{"apiKey":"` + key + `"}`, http.StatusOK},
		{mine + "/effective", `{"apiKey":"` + key + `"}`, http.StatusOK},
		{mine + "/buckets/peek", `{"request":{"apiKey":"` + key + `"}}`, http.StatusOK},
		{mine + "/buckets/reset", `{"rule":"mine-0","request":{"apiKey":"` + key + `"}}`, http.StatusNoContent},
		{mine + "/explain", `{"apiKey":"` + key + `","cost":-1}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"apiKey":["` + key + `"]}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"apiKey":"` + key + `","nonsense":true}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"apiKey":"` + key + `","ip":"nowhere"}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"ip":"` + key + `"}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"cost":"` + key + `"}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"timeoutMs":"` + key + `"}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"ruleSet":"` + key + `"}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"headers":{"Authorization":"Bearer ` + key + `"}}`, http.StatusUnprocessableEntity},
		{mine + "/explain", `{"apiKey":"` + key, http.StatusBadRequest},
		{mine + "/explain", `"` + key + `"`, http.StatusUnprocessableEntity},
		{"/v1/rule-sets/none/explain", `{"apiKey":"` + key + `"}`, http.StatusNotFound},
		{mine + "/buckets/peek", `{"request":{"apiKey":"` + key + `"},"rules":["none"]}`, http.StatusNotFound},
		{mine + "/buckets/reset", `{"rule":"mine-0","request":{"apiKey":"` + key + `","cost":-1}}`, http.StatusUnprocessableEntity},
		{mine + "/buckets/reset", `{"rule":"mine-0","key":"` + key + `"}`, http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":["` + key + `"]`), http.StatusOK},
		{mine + "/rules/mine-0", rule(`"apiKeys":["` + key + `",""]`), http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":["sha256:` + key + `"]`), http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":["` + key + strings.Repeat("x", 1_024) + `"]`), http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":{"` + "key" + `":"` + key + `"}`), http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":[["` + key + `"]]`), http.StatusUnprocessableEntity},
		{mine + "/rules/mine-0", rule(`"apiKeys":["` + key + `"],"ips":["nowhere"]`), http.StatusUnprocessableEntity},
		{mine, `{"id":"mine","rules":[` + rule(`"apiKeys":["`+key+`"],"hosts":["two"]`) + `]}`, http.StatusOK},
		{mine, `{"id":"mine","rules":[` + rule(`"apiKeys":["`+key+`"],"hosts":["b a d"]`) + `]}`, http.StatusUnprocessableEntity},
		{mine, `{"id":"mine","rules":[` + rule(`"apiKeys":["`+key+`"]`), http.StatusBadRequest},
		{"/v1/validate", `{"id":"mine","rules":[` + rule(`"apiKeys":["`+key+`"],"users":[""]`) + `]}`, http.StatusOK},
	} {
		method := http.MethodPost
		if c.path == mine || strings.HasSuffix(c.path, "/mine-0") {
			method = http.MethodPut
		}
		got := r.send(t, method, c.path, c.body, "If-Match", "*").want(t, c.status)
		if strings.Contains(got.body, "sk-live") {
			t.Errorf("%s of %s answers %s", c.path, c.body, got.body)
		}
		asked++
	}
	for _, path := range []string{mine, mine + "/rules", mine + "/rules/mine-0", mine + "/diff", mine + "/diff?from=1", mine + "/revisions/2"} {
		if got := r.send(t, http.MethodGet, path, "").want(t, http.StatusOK); strings.Contains(got.body, "sk-live") {
			t.Errorf("%s shows %s", path, got.body)
		}
	}
	// A conflict has the changes of the other author.
	r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-Match", "*").want(t, http.StatusOK)
	if got := r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-Match", `"2"`).want(t, http.StatusPreconditionFailed); strings.Contains(got.body, "sk-live") || !strings.Contains(got.body, "sha256:") {
		t.Errorf("a conflict shows %s", got.body)
	}
	records, err := os.ReadFile(r.auditFile)
	do(t, err)
	for name, text := range map[string]string{"audit": string(records), "log": log.String()} {
		if strings.Contains(text, "sk-live") || strings.Contains(text, tokenWrite) {
			t.Errorf("the %s shows a secret: %s", name, text)
		}
		if n := strings.Count(text, "put-rule"); n < 10 {
			t.Errorf("the %s has %d changes after %d requests: too few for this test", name, n, asked)
		}
	}
}
