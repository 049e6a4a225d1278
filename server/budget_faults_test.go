package server_test

import (
	"fmt"
	"net/http"
	"testing"
)

// Faults that other limiters of language models are known for.
func TestBudget_KnownFaults(t *testing.T) {
	servers := startShared(t, 2)
	refused := func(t *testing.T, r *running, body string) {
		t.Helper()
		a := r.do(t, http.MethodPost, "/v1/check", body)
		if d := a.object(t); d["allowed"] != false || d["rule"] != "tokens" || d["reason"] != "limited" {
			t.Errorf("%s is not refused for its tokens: %s", body, a.body)
		}
	}

	// A first request is not refused because the default of its model, or the maximum that
	// it declares, is above the limit. It takes all there is.
	t.Run("default above the limit", func(t *testing.T) {
		for user, estimate := range map[string]string{
			"default": `{"model":"new","inputTokens":200}`, "declared": `{"inputTokens":200,"maxOutputTokens":9000000000000000000}`,
		} {
			body := fmt.Sprintf(`{"userId":%q,"estimate":%s}`, user, estimate)
			receipt := servers[0].take(t, body)
			wantLeft(t, user, "has begun", budget{"requests": 99, "tokens": 0, "usd": 0}, servers...)
			refused(t, servers[1], body)
			servers[1].settle(t, receipt, `,"usage":{"inputTokens":200,"outputTokens":300}`)
			wantLeft(t, user, "has settled", budget{"requests": 99, "tokens": 9_500, "usd": 99_700}, servers...)
		}
	})

	// Of several declared maxima the largest counts, in any order.
	t.Run("two declared maxima", func(t *testing.T) {
		for i, maxima := range []string{`[16,4096]`, `[4096,16]`, `[4096]`, `4096`} {
			user := fmt.Sprintf("maxima-%d", i)
			servers[i%2].take(t, fmt.Sprintf(`{"userId":%q,"estimate":{"inputTokens":4,"maxOutputTokens":%s}}`, user, maxima))
			wantLeft(t, user, "declares "+maxima, budget{"requests": 99, "tokens": 10_000 - 4_100, "usd": 100_000 - 4_096}, servers...)
		}
		twice := `{"userId":"maxima","estimate":{"inputTokens":4,"maxOutputTokens":4096,"maxOutputTokens":16}}`
		if a := servers[0].do(t, http.MethodPost, "/v1/check", twice); a.status != http.StatusBadRequest {
			t.Errorf("a maximum that is there twice: %d %s", a.status, a.body)
		}
	})

	// A check that costs nothing, or is of unknown cost, is refused where nothing is left.
	t.Run("zero cost", func(t *testing.T) {
		servers[0].take(t, `{"userId":"zero","costs":{"tokens":10000,"usd":0}}`)
		for i, with := range []string{``, `,"costs":{"tokens":0}`, `,"costs":{"tokens":0,"usd":0}`, `,"estimate":{}`, `,"estimate":{"inputTokens":0,"maxOutputTokens":[]}`, `,"peek":true,"cost":1`} {
			refused(t, servers[i%2], `{"userId":"zero"`+with+`}`)
		}
		wantLeft(t, "zero", "is refused", budget{"requests": 99, "tokens": 0, "usd": 99_999}, servers...)
	})
}
