package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/memrules"
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
func tiered(t *testing.T, test func(t *testing.T, at workplace, check func(args ...string))) {
	t.Helper()
	for _, way := range []string{"server", "direct"} {
		t.Run(way, func(t *testing.T) {
			settings := inRedis(t)
			address, check := startTiered(t, settings)
			at := workplace{flags: []string{"-s", "http://" + address}, place: "at http://" + address}
			if way == "direct" {
				at = direct(t, settings)
			}
			test(t, at, check)
		})
	}
}

func startTiered(t *testing.T, settings []string) (address string, check func(args ...string)) {
	t.Helper()
	address, requests := serveWith(t, settings...)
	file := write(t, t.TempDir(), "rules.yaml", tieredRules)
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

func TestPeekAndReset(t *testing.T) {
	tiered(t, func(t *testing.T, at workplace, check func(args ...string)) {
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
			at.types(t, "", []line{{command: "bucket reset --rule-set api-limits " + strings.Join(args, " "), code: code, stdout: stdout, stderr: stderr}})
		}
		take()
		left("per-user", 7, "after three")
		left("premium", 100, "that does not apply")
		at.types(t, "", []line{
			{command: "bucket peek --rule-set api-limits --path /api/orders --user " + user, stdout: "RULE BAND LEFT OF FULL IN BUCKET\n" +
				"all daily 97 100 TIME KEY\nper-user hourly 7 10 TIME KEY\nper-user 5-per-1h 2 5 TIME KEY"},
			{command: "bucket peek --rule per-user --user " + user, stdout: "RULE BAND LEFT OF FULL IN BUCKET\nper-user hourly 7 10 TIME KEY\nper-user 5-per-1h 2 5 TIME KEY"},
			{command: "bucket peek --rule-set api-limits --path /health", stdout: "no bucket: no rule that applies counts this request, see fluxgate explain"},
			{command: "bucket peek --rule-set api-limits --path /health -o json", stdout: "[]"},
			{command: "bucket peek --rule-set api-limits --path /health -o yaml", stdout: "[]"},
		})
		code, out, errs := call(t, append([]string{"bucket", "reset", "--rule-set", "api-limits", "--rule", "per-user", "--user", user}, at.flags...)...)
		if code != exitOK || out != "the bucket "+peek("per-user").Key+" of rule per-user in api-limits is full\n" {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		left("per-user", 10, "after a reset by a request")
		left("all", 97, "after the reset of another rule")

		take()
		reset(exitOK, "the bucket KEY of rule per-user in api-limits is full", "", "--rule", "per-user", "--key", peek("per-user").Key)
		left("per-user", 10, "after a reset by the key")

		take()
		reset(exitDrift, "", "there is no terminal to ask on", "--rule", "per-user")
		left("per-user", 7, "after a reset that nobody confirmed")
		at.types(t, "", []line{{command: "bucket reset --rule-set api-limits --rule per-user", stdin: &person{answer: "no\n"}, code: exitDrift, stderr: "Make all buckets of rule per-user in api-limits full, for all callers, PLACE? [y/N] "}})
		left("per-user", 7, "after a no")
		reset(exitError, "", "does not say userId, which rule per-user counts by", "--rule", "per-user", "--ip", "192.0.2.7")
		left("per-user", 7, "after a reset that names nobody")
		reset(exitOK, "all buckets of rule per-user in api-limits are full; other servers see it within seconds", "", "--rule", "per-user", "--yes")
		left("per-user", 10, "after the reset of a rule")
		left("all", 91, "after the reset of another rule")
		at.types(t, "", []line{{command: "bucket reset --rule-set api-limits", stdin: &person{answer: "y\n"}, stdout: "all buckets of api-limits are full; other servers see it within seconds", stderr: "Make all buckets of api-limits full, for all callers, PLACE? [y/N] "}})
		left("all", 100, "after the reset of the rule set")

		// Nobody is asked about what does not exist.
		for _, rule := range []string{"--rule nope", ""} {
			set, says := "api-limits", "there is no such rule\nsee fluxgate rules get"
			if rule == "" {
				set, says = "nope", "see fluxgate rules list"
			}
			code, _, errs := callWith(t, &person{answer: "y\n"}, append(strings.Fields("bucket reset --rule-set "+set+" "+rule), at.flags...)...)
			if code != exitError || !strings.Contains(errs, says) || strings.Contains(errs, "[y/N]") {
				t.Errorf("exit code %d\n%s", code, errs)
			}
		}
		reset(exitError, "", "see fluxgate rules get", "--rule", "nope", "--yes")
		reset(exitError, "", "does not limit", "--rule", "health", "--user", user)
		at.types(t, "", []line{
			{command: "bucket peek --rule-set nope", code: exitError, stderr: "see fluxgate rules list"},
			{command: "bucket peek --rule-set api-limits --rule nope", code: exitError, stderr: "there is no such rule"},
			{command: "bucket peek --rule-set api-limits --rule off", code: exitError, stderr: "is disabled"},
			{command: "bucket peek --rule-set api-limits --rule keyed", code: exitError, stderr: "refuses a request without apiKey"},
		})
	})
}

func TestExplainSaysWhatIsDecidedAndWhy(t *testing.T) {
	const verdict = "allowed (ok)\nRULE BAND LEFT OF FULL IN MODE\nall daily 96 100 TIME shadow\nper-user hourly 6 10 TIME enforce\nper-user 5-per-1h 1 5 TIME enforce\n\n"
	tiered(t, func(t *testing.T, at workplace, check func(args ...string)) {
		check("--user", "ada", "--path", "/api/orders", "--cost", "4")
		at.types(t, "", []line{
			{command: "explain --user ada --path /api/orders", stdout: verdict +
				"RULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\nper-user yes counts by userId KEY\n5 rules of api-limits do not apply: --all says why"},
			{command: "explain --user ada --path /api/orders --all --rule-set api-limits", stdout: verdict +
				"RULE APPLIES WHY BUCKET\nhealth no path -\nbanned no user -\npremium no attribute tier KEY\nall yes counts all together, in shadow KEY\n" +
				"keyed no path -\noff no disabled -\nper-user yes counts by userId KEY"},
			{command: "explain --user ada --path /api/orders --cost 2", stdout: strings.Replace(verdict, "allowed (ok)", "refused (limited), try again in TIME", 1) +
				"RULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\nper-user yes counts by userId KEY\n5 rules of api-limits do not apply: --all says why"},
			{command: "explain --ip 192.0.2.7 --path /api/orders --attribute tier=premium --all", stdout: "allowed (ok)\nRULE BAND LEFT OF FULL IN MODE\n" +
				"premium hourly 100 100 TIME enforce\nall daily 96 100 TIME shadow\n\nRULE APPLIES WHY BUCKET\nhealth no path -\nbanned no user -\n" +
				"premium yes counts by ip, without userId KEY\nall yes counts all together, in shadow KEY\nkeyed no path -\noff no disabled -\nper-user no group, after premium KEY"},
			{command: "explain --path /health --all", stdout: "allowed (exempt)\n\nRULE APPLIES WHY BUCKET\nhealth yes allows it -\nbanned no user -\n" +
				"premium no path KEY\nall no ended, after health KEY\nkeyed no path -\noff no disabled -\nper-user no path KEY"},
			{command: "explain --user eve", stdout: "refused (denied)\n\nRULE APPLIES WHY BUCKET\nbanned yes denies it -\n6 rules of api-limits do not apply: --all says why"},
			{command: "explain --path /keyed", stdout: "refused (missing-identity)\n\nRULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\n" +
				"keyed yes refuses it without apiKey -\n5 rules of api-limits do not apply: --all says why"},
			{command: "explain --path /health -o yaml", stdout: "ruleSet: api-limits\nrules:\n  - rule: health\n    applies: true\n    action: allow\n    priority: 100\n" +
				"decision:\n  allowed: true\n  reason: exempt\n  rule: health\n  remaining: 0\nnotApplying: 6"},
			{command: "explain --rule-set nope", code: exitError, stderr: "see fluxgate rules list"},
		})
		code, out, errs := call(t, append([]string{"explain", "--path", "/health", "--all", "-o", "json"}, at.flags...)...)
		var told admin.Explanation
		if err := json.Unmarshal([]byte(out), &told); code != exitOK || err != nil || len(told.Rules) != 7 || !told.Decision.Allowed || len(told.Rules[2].Key) != 48 {
			t.Errorf("exit code %d, %v\n%s%s", code, err, out, errs)
		}
	})
}

func TestTheRuleSetOfRequestsThatNameNone(t *testing.T) {
	for name, at := range workplaces(t) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			apply := func(ids ...string) {
				t.Helper()
				for _, id := range ids {
					write(t, folder, id+".yaml", ruleSet(id, 1))
				}
				if code, _, errs := call(t, append([]string{"rules", "apply", "--yes", "-f", folder}, at.flags...)...); code != exitOK {
					t.Fatal(errs)
				}
			}
			wants := func(code int, says, command string) {
				t.Helper()
				for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // until the server has heard of it
					got, out, errs := call(t, append(strings.Fields(command), at.flags...)...)
					if got == code && strings.Contains(out+errs, says) {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("fluxgate %s: exit code %d\n%s%s", command, got, out, errs)
					}
				}
			}
			wants(exitError, "there are no rule sets", "explain")
			apply("one", "two")
			for _, command := range []string{"explain", "bucket peek"} {
				wants(exitUsage, "there is no rule set api-limits, which is that of requests that name none: say which with --rule-set: one, two\n", command)
				wants(exitOK, "two-rule", command+" --user ada --rule-set two")
			}
			apply("api-limits")
			for _, command := range []string{"explain --user ada", "bucket peek --user ada"} {
				wants(exitOK, "api-limits-rule", command)
			}
		})
	}
}

// stranger is an operator whom nobody tells anything about the place.
type stranger struct {
	admin.Operator
	who *admin.Who
}

func (s stranger) Whoami(context.Context) (*admin.Who, error) {
	if s.who != nil {
		return s.who, nil
	}
	return nil, admin.NewProblem(http.StatusForbidden, admin.KindAccess, "no")
}

func TestWithoutADefaultTheRuleSetIsTheOnlyOne(t *testing.T) {
	source := memrules.New(memrules.Config{})
	for i, want := range []string{"there are no rule sets", "set-00", "there are several rule sets: say which with --rule-set: set-00, set-01"} {
		if i > 0 {
			set, err := fluxgate.NewRuleSet(fmt.Sprintf("set-%02d", i-1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.Put(t.Context(), set, rules.Change{Author: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		// The last may look at one rule set alone, which is not the default.
		for _, who := range []*admin.Who{nil, {}, {DefaultRuleSet: "api-limits", RuleSets: []string{"set-00"}}} {
			got, err := defaultRuleSet(t.Context(), stranger{admin.NewDirect(source, nil, ""), who})
			if said := got + fmt.Sprint(err); !strings.Contains(said, want) {
				t.Errorf("with %d rule sets: %s", i, said)
			}
		}
	}
}

// TestTheExamplesOfBucketWork types what its help says.
func TestTheExamplesOfBucketWork(t *testing.T) {
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

// TestBucketsInMemoryAreTheServers is about buckets that only the server has.
func TestBucketsInMemoryAreTheServers(t *testing.T) {
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
	if code != exitOK || !strings.Contains(tidy(out), "per-user hourly 2 2") || !strings.Contains(errs, "who has taken nothing yet") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
