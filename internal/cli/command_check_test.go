package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// What a caller owes after a settlement is in the tables of check
// and explain, and in their JSON; so is how long a request was held.
func TestCheck_DebtAndWait(t *testing.T) {
	const rules = `id: api-limits
rules:
  - {id: tokens, path: /llm, limitScope: USER_ID, bands: [{label: hourly, capacity: 1000, refill: 1d}]}
  - {id: paced, path: /db, onLimitExceed: WAIT_FOR_REFILL, bands: [{label: slow, capacity: 1, refill: 3s}]}
`
	file := write(t, t.TempDir(), "rules.yaml", rules)
	admin, address := serveWith(t, append(inRedis(t)[:2], "mongo.enabled=false", "rules.file="+file, "wait-for-refill.enabled=true")...)
	post := func(path, body string, into any) {
		t.Helper()
		answer, err := http.Post("http://"+address+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", path, answer.StatusCode, err)
		}
	}
	var decision struct{ Receipt string }
	post("/v1/check", `{"userId": "ada", "path": "/llm"}`, &decision)
	post("/v1/settle", `{"receipt": "`+decision.Receipt+`", "actual": 1500}`, new(any))
	for _, c := range []struct {
		command string
		code    int
		want    []string
	}{
		{"check --user ada --path /llm --server " + address, exitRejected, []string{"LEFT  OWED  OF", "tokens  hourly  0     500   1000"}},
		{"check --user ada --path /llm --output json --server " + address, exitRejected, []string{`"owed": 500`}},
		{"explain --user ada --path /llm --server " + admin, exitOK, []string{"LEFT  OWED  OF"}},
		{"check --path /db --server " + address, exitOK, []string{"allowed (ok)\n", "LEFT  OF"}},
		{"check --path /db --server " + address, exitOK, []string{"allowed (ok), held for "}},
	} {
		code, out, errs := call(t, strings.Fields(c.command)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("fluxgate %s: exit code %d, want %q\n%s%s", c.command, code, want, out, errs)
			}
		}
	}
}

// A rule set that is named and does not exist is an error with an exit code of its own. Its
// name may be a typo, and would limit nothing.
func TestCheck_UnknownRuleSet(t *testing.T) {
	file := write(t, t.TempDir(), "rules.yaml", firstRules)
	_, address := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+file)
	for _, c := range []struct {
		id, says string
	}{
		{"api-limit", `there is no rule set "api-limit": did you mean api-limits?`}, {"other", "there is no rule set \"other\"\n"},
	} {
		code, out, errs := call(t, "check", "--rule-set", c.id, "--server", address)
		if code != exitUnknown || out != "" || !strings.Contains(errs, c.says) || strings.Contains(errs, "is the address") {
			t.Errorf("--rule-set %s: exit code %d\n%s%s", c.id, code, out, errs)
		}
	}
	if code, out, errs := call(t, "check", "--rule-set", "api-limits", "--server", address); code != exitOK {
		t.Errorf("a rule set that exists: exit code %d\n%s%s", code, out, errs)
	}
}

// A request that is not sent is not blamed on the server.
func TestCheck_RequestTooLarge(t *testing.T) {
	code, _, errs := call(t, "check", "--user", strings.Repeat("x", 300<<10), "-s", "http://127.0.0.1:1")
	if code != exitError || !strings.HasSuffix(errs, "at most 262144 can be sent\n") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// While Redis does not answer, numbers that it was not asked for are unknown.
func TestCheck_RedisFrozen(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	file := write(t, t.TempDir(), "rules.yaml", `id: api-limits
rules:
  - {id: local, path: /local, bands: [{label: hourly, capacity: 10, refill: 1h}]}
  - {id: open, path: /open, onFailure: open, bands: [{label: hourly, capacity: 10, refill: 1h}]}
  - {id: closed, path: /closed, onFailure: closed, bands: [{label: hourly, capacity: 10, refill: 1h}]}
`)
	admin, address := serveWith(t, "redis.timeout=100ms", "redis.uri="+redis.URI(), "mongo.enabled=false", "rules.file="+file)
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/local", exitOK, "allowed (ok), degraded: Redis unavailable, counted in memory\nRULE LIMIT LEFT OF FULL IN\nlocal hourly 9 10 TIME"},
		{"/open", exitOK, "allowed (store-failure), degraded: Redis unavailable\nRULE LIMIT LEFT OF FULL IN\nopen hourly unknown 10 unknown"},
		{"/closed", exitRejected, "rejected (store-failure), degraded: Redis unavailable\nRULE LIMIT LEFT OF FULL IN\nclosed hourly unknown 10 unknown"},
	} {
		if code, out, errs := call(t, "check", "--path", c.path, "--server", address); code != c.code || tidy(out) != c.want {
			t.Errorf("check %s: exit code %d\n%s%s", c.path, code, out, errs)
		}
		if code, out, errs := call(t, "explain", "--path", c.path, "--server", admin); code != exitOK || !strings.HasPrefix(tidy(out), c.want) {
			t.Errorf("explain %s: exit code %d\n%s%s", c.path, code, out, errs)
		}
	}
}
