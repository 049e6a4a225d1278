package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/spf13/cobra"
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

// tiered calls test with the two ways to work with a server that has rules, and
// with what asks that for a decision.
func tiered(t *testing.T, test func(t *testing.T, at testTarget, check func(args ...string))) {
	t.Helper()
	for _, way := range []string{"server", "direct"} {
		t.Run(way, func(t *testing.T) {
			settings := inRedis(t)
			address, check := startTiered(t, settings)
			at := testTarget{flags: []string{"-s", "http://" + address}, place: "at http://" + address}
			if way == "direct" {
				at = direct(t, settings)
			}
			test(t, at, check)
		})
	}
}

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

// peek shows what is left, and reset fills exactly the buckets that it names.
func TestBucket_PeekAndReset(t *testing.T) {
	tiered(t, func(t *testing.T, at testTarget, check func(args ...string)) {
		const user = "ada"
		peek := func(rule string) *admin.Bucket {
			t.Helper()
			args := []string{"bucket", "peek", "--rule-set", "api-limits", "--rule", rule, "--user", user, "-o", "json"}
			code, out, errs := call(t, append(args, at.flags...)...)
			var found []admin.Bucket
			if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil || len(found) != 1 {
				t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
			}
			return &found[0]
		}
		left := func(rule string, want int64, when string) {
			t.Helper()
			if b := peek(rule); b.Bands[0].Remaining != want {
				t.Errorf("%d are left under %s %s, not %d", b.Bands[0].Remaining, rule, when, want)
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
		left("premium", 100, "that does not apply")
		at.runLines(t, "", []line{
			{command: "bucket peek --rule-set api-limits --path /api/orders --user " + user, stdout: "RULE LIMIT LEFT OF FULL IN BUCKET\n" +
				"all daily 97 100 TIME KEY\nper-user hourly 7 10 TIME KEY\nper-user 5-per-1h 2 5 TIME KEY"},
			{command: "bucket peek --rule per-user --user " + user, stdout: "RULE LIMIT LEFT OF FULL IN BUCKET\nper-user hourly 7 10 TIME KEY\nper-user 5-per-1h 2 5 TIME KEY"},
			{command: "bucket peek --rule-set api-limits --path /health", stdout: "no bucket: no rule that applies counts this request; see fluxgate explain"},
			{command: "bucket peek --rule-set api-limits --path /health -o json", stdout: "[]"},
			{command: "bucket peek --rule-set api-limits --path /health -o yaml", stdout: "[]"},
		})
		code, out, errs := call(t, append([]string{"bucket", "reset", "--rule-set", "api-limits", "--rule", "per-user", "--user", user}, at.flags...)...)
		if code != exitOK || out != "reset the bucket of one caller of rule per-user in api-limits\n" {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		left("per-user", 10, "after a reset by a request")
		left("all", 97, "after the reset of another rule")

		take()
		reset(exitOK, "reset the bucket of one caller of rule per-user in api-limits", "", "--rule", "per-user", "--key", peek("per-user").Key)
		left("per-user", 10, "after a reset by the key")

		take()
		reset(exitDrift, "", "there is no terminal to ask for confirmation", "--rule", "per-user")
		left("per-user", 7, "after an unconfirmed reset")
		at.runLines(t, "", []line{{command: "bucket reset --rule-set api-limits --rule per-user", stdin: &terminal{answer: "no\n"}, code: exitDrift, stderr: "Reset all buckets of rule per-user in api-limits, for all callers, PLACE? [y/N] "}})
		left("per-user", 7, "after a no")
		reset(exitError, "", "has no userId, which rule per-user counts by", "--rule", "per-user", "--ip", "192.0.2.7")
		left("per-user", 7, "after a reset without a user")
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
		at.runLines(t, "", []line{
			{command: "bucket peek --rule-set nope", code: exitError, stderr: "see fluxgate rules list"},
			{command: "bucket peek --rule-set api-limits --rule nope", code: exitError, stderr: "there is no such rule"},
			{command: "bucket peek --rule-set api-limits --rule off", code: exitError, stderr: "is disabled"},
			{command: "bucket peek --rule-set api-limits --rule keyed", code: exitError, stderr: "rejects a request without apiKey"},
		})
	})
}

// The examples in the help of bucket work.
func TestBucket_Examples(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	file := write(t, t.TempDir(), "rules.yaml", firstRules)
	if code, _, errs := call(t, "rules", "apply", "--yes", "-f", file, "-s", address); code != exitOK {
		t.Fatal(errs)
	}
	for _, cmd := range []*cobra.Command{newBucket(), newBucketPeek()} {
		for example := range strings.Lines(cmd.Example) {
			if code, out, errs := call(t, append(strings.Fields(example), "-s", "http://"+address)[1:]...); code != exitOK || strings.Contains(out, "no bucket") {
				t.Errorf("%s: exit code %d\n%s%s", example, code, out, errs)
			}
		}
	}
}

// Buckets in the memory of a server are read from that server only.
func TestBucket_InMemory(t *testing.T) {
	settings := []string{"rules.file=" + write(t, t.TempDir(), "rules.yaml", firstRules), "redis.enabled=false", "mongo.enabled=false"}
	address, requests := serveWith(t, settings...)
	if code, _, errs := call(t, "check", "--user", "ada", "--path", "/api/x", "-s", "http://"+requests); code != exitOK {
		t.Fatal(errs)
	}
	code, out, errs := call(t, "bucket", "peek", "--rule-set", "api-limits", "--user", "ada", "--path", "/api/x", "-s", "http://"+address)
	if code != exitOK || !strings.Contains(tidy(out), "per-user hourly 1 2") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	at := direct(t, settings)
	for _, command := range []string{"peek", "reset"} {
		code, _, errs := call(t, append([]string{"bucket", command, "--rule-set", "api-limits"}, at.flags...)...)
		if code != exitError || !strings.Contains(errs, "ask one of them with --server") {
			t.Errorf("exit code %d\n%s", code, errs)
		}
	}
	code, out, errs = call(t, append([]string{"explain", "--user", "ada", "--path", "/api/x"}, at.flags...)...)
	if code != exitOK || !strings.Contains(tidy(out), "per-user hourly 2 2") || !strings.Contains(errs, "the decision on full buckets") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// A bucket that the store could not read has a row without numbers.
func TestBucketPeek_Unavailable(t *testing.T) {
	var out strings.Builder
	writeBuckets(&out, []admin.Bucket{{Rule: "per-user", Key: "5f0c"}, {Rule: "per-ip", Key: "77aa", Bands: []wire.Band{{Rule: "per-ip", Limit: 5, Remaining: 3}}}})
	if got := tidy(out.String()); !strings.Contains(got, "RULE LIMIT LEFT OF FULL IN BUCKET\nper-user - unknown - - 5f0c\nper-ip ") {
		t.Errorf("it writes\n%s", got)
	}
}
