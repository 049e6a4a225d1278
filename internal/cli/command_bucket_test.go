package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/wire"
)

const tieredRules = `id: api-limits
rules:
  - id: per-user
    path: /api/**
    limitScope: USER_ID
    group: tiers
    bands: [{label: hourly, capacity: 10, refill: 1h}, {capacity: 5, refill: 1h}]
  - id: premium
    path: /api/**
    limitScope: USER_ID
    group: tiers
    priority: 5
    when: {attributes: {tier: [premium]}}
    bands: [{label: hourly, capacity: 100, refill: 1h}]
  - {id: all, mode: shadow, bands: [{label: daily, capacity: 100, refill: 24h}]}
  - {id: banned, when: {users: [eve]}, action: deny, priority: 50}
  - {id: health, path: /health, action: allow, priority: 100}
  - {id: keyed, path: /keyed, limitScope: API_KEY, onMissingIdentity: refuse, bands: [{label: hourly, capacity: 1, refill: 1h}]}
  - {id: off, enabled: false, bands: [{label: hourly, capacity: 1, refill: 1h}]}
`

func startTiered(t *testing.T, settings []string) (address string, check func(args ...string)) {
	t.Helper()
	return startRules(t, settings, tieredRules)
}

func startRules(t *testing.T, settings []string, rules string) (address string, check func(args ...string)) {
	t.Helper()
	address, requests := serveWith(t, settings...)
	file := write(t, t.TempDir(), "rules.yaml", rules)
	if code, _, errs := call(t, "rules", "apply", "--yes", "-f", file, "-s", "http://"+address); code != exitOK {
		t.Fatal(errs)
	}
	return address, func(args ...string) {
		t.Helper()
		if code, out, errs := call(t, append([]string{"check", "-s", "http://" + requests}, args...)...); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
	}
}

// reset fills exactly the buckets that it names.
func TestBucket_Reset(t *testing.T) {
	address, check := startTiered(t, inRedis(t))
	at := testTarget{flags: []string{"-s", "http://" + address}, place: "at http://" + address}
	const user = "ada"
	explain := func() (e admin.Explanation) {
		t.Helper()
		out := at.mustCall(t, "explain", "--path", "/api/orders", "--user", user, "-o", "json")
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return e
	}
	left := func(rule string, want int64, when string) {
		t.Helper()
		bands := explain().Decision.Bands
		if i := slices.IndexFunc(bands, func(b wire.Band) bool { return b.Rule == rule }); i < 0 || bands[i].Remaining != want {
			t.Errorf("%s: %+v, not %d under %s", when, bands, want, rule)
		}
	}
	take := func() {
		t.Helper()
		check("--user", user, "--path", "/api/orders", "--cost", "3")
	}
	reset := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		at.runLines(t, "", []line{{command: "bucket reset --rule-set api-limits " + strings.Join(args, " "), code: code, stdout: stdout, stderr: stderr}})
	}
	take()
	left("per-user", 7, "after three")
	reset(exitOK, "reset the bucket of one caller of rule per-user in api-limits", "", "--rule", "per-user", "--user", user)
	left("per-user", 10, "after a reset by a request")
	left("all", 97, "after the reset of another rule")

	take()
	e := explain()
	key := e.Rules[slices.IndexFunc(e.Rules, func(v admin.Verdict) bool { return v.Rule == "per-user" })].Key
	reset(exitOK, "reset the bucket of one caller of rule per-user in api-limits", "", "--rule", "per-user", "--key", key)
	left("per-user", 10, "after a reset by the key")

	take()
	reset(exitDrift, "", "there is no terminal to ask for confirmation", "--rule", "per-user")
	left("per-user", 7, "after an unconfirmed reset")
	at.runLines(t, "", []line{{command: "bucket reset --rule-set api-limits --rule per-user", stdin: &terminal{answer: "no\n"}, code: exitDrift, stderr: "Reset all buckets of rule per-user in api-limits, for all callers, PLACE? [y/N] "}})
	left("per-user", 7, "after a no")
	reset(exitError, "", "has no userId, which rule per-user counts by", "--rule", "per-user", "--ip", "192.0.2.7")
	left("per-user", 7, "after a reset without a user")
	for _, args := range []string{
		"--user " + user, "--path /", "--key " + key, "--rule per-user --key 00112233", "--rule per-user --user ada --key " + key, "--rule r/s",
	} {
		if code, _, errs := call(t, append(strings.Fields("bucket reset --yes --rule-set api-limits "+args), at.flags...)...); code != exitError {
			t.Errorf("bucket reset %s: exit code %d\n%s", args, code, errs)
		}
	}
	left("per-user", 7, "after resets that name no bucket")
	reset(exitOK, "reset all buckets of rule per-user in api-limits; other servers follow within seconds", "", "--rule", "per-user", "--yes")
	left("per-user", 10, "after the reset of a rule")
	left("all", 91, "after the reset of another rule")
	at.runLines(t, "", []line{{command: "bucket reset --rule-set api-limits", stdin: &terminal{answer: "y\n"}, stdout: "reset all buckets of api-limits; other servers follow within seconds", stderr: "Reset all buckets of api-limits, for all callers, PLACE? [y/N] "}})
	left("all", 100, "after the reset of the rule set")

	// There is no question about what does not exist.
	for _, rule := range []string{"--rule nope", ""} {
		set, says := "api-limits", "there is no such rule\nsee fluxgate rules get"
		if rule == "" {
			set, says = "nope", "see fluxgate rules list"
		}
		code, _, errs := callWith(t, &terminal{answer: "y\n"}, append(strings.Fields("bucket reset --rule-set "+set+" "+rule), at.flags...)...)
		if code != exitError || !strings.Contains(errs, says) || strings.Contains(errs, "[y/N]") {
			t.Errorf("exit code %d\n%s", code, errs)
		}
	}
	reset(exitError, "", "see fluxgate rules get", "--rule", "nope", "--yes")
	reset(exitError, "", "has no buckets", "--rule", "health", "--user", user)
}

// The example in the help of bucket works.
func TestBucket_Example(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	at := testTarget{flags: []string{"-s", "http://" + address}}
	at.mustCall(t, "rules", "apply", "--yes", "-f", write(t, t.TempDir(), "rules.yaml", firstRules))
	at.mustCall(t, strings.Fields(newBucket().Example)[1:]...)
}
