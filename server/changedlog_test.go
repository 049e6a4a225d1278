package server_test

import (
	"net/http"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// After a change the log does not say that it is not in effect because another rule set is
// broken.
func TestChange_OtherRuleSetBroken(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r, log := startLogged(t, "redis.uri="+redis.URI(), "rules.source=redis", "reload.strategy=POLLING", "reload.polling-interval=1h")
	if a := r.put(t, 5, "If-None-Match", "*"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	other := `{"id":"other","rules":[{"id":"a","bands":[{"capacity":1,"refill":"1h"}]}]}`
	if a := r.do(t, http.MethodPut, r.adminURL()+"/v1/rule-sets/other", other, "If-None-Match", "*", "Content-Type", "application/json"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	r.do(t, http.MethodPost, "/v1/check", `{"ruleSet":"other"}`, "Content-Type", "application/json") // loads it
	if _, err := redis.Do(t.Context(), "HSET", "fluxgate:{rules}:heads", "other", "broken"); err != nil {
		t.Fatal(err)
	}
	if a := r.put(t, 7, "If-Match", "*"); a.status != http.StatusOK {
		t.Fatal(a)
	}
	if d := r.check(t, "ada"); d["limit"] != 7.0 {
		t.Errorf("the change is not in effect: %v", d)
	}
	for _, says := range []string{"cannot load them yet", "cannot load it yet"} {
		if lines := log.Lines(says); len(lines) != 0 {
			t.Errorf("the log says of a change in effect: %s", lines)
		}
	}
}
