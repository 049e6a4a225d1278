package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// overrideTargets is a server with the rules in Redis, and firstRules in them.
func overrideTargets(t *testing.T) map[string]testTarget {
	t.Helper()
	address, _ := serveWith(t, inRedis(t)...)
	at := testTarget{[]string{"--server", "http://" + address}, "anonymous", "at http://" + address}
	at.mustCall(t, "rules", "apply", "--yes", "-f", write(t, t.TempDir(), "rules.yaml", firstRules))
	return map[string]testTarget{"server": at}
}

// mustCall runs a command that succeeds, and returns what it prints.
func (p testTarget) mustCall(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := call(t, append(args, p.flags...)...)
	if code != exitOK {
		t.Fatalf("fluxgate %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// An override is written, listed, replaced and deleted.
func TestOverride_Lifecycle(t *testing.T) {
	acme := rules.Override{RuleSetID: "api-limits", RuleID: "per-user", Identity: map[string]string{"userId": "acme"}}
	bob := rules.Override{RuleSetID: "api-limits", RuleID: "per-user", Identity: map[string]string{"userId": "bob"}}
	id := acme.ID()
	for name, at := range overrideTargets(t) {
		t.Run(name, func(t *testing.T) {
			const written, deleted = "1 override written; other servers follow within seconds", "1 override deleted; other servers follow within seconds"
			at.runLines(t, "", []line{
				{command: "override list", stdout: "api-limits has no overrides"},
				{command: "override list -o json", stdout: "[]"},
				{command: "override set --rule per-user --caller userId=acme --times 10 --for 1h --dry-run", stdout: "1 override checked", stderr: "this was a dry run"},
				{command: "override list --rule-set api-limits", stdout: "api-limits has no overrides"},
				{command: "override set --rule per-user --caller userId=acme --times 10 --for 1h --reason launch", stdout: written},
				{command: "override list", stdout: "ENDS RULE CALLER NUMBERS BY WHY ID\nMOMENT per-user userId acme 10 times WHO launch " + id},
				{command: "override set --rule per-user --caller userId=acme --times 0.5", stdout: written},
				{command: `override set --rule per-user --caller userId=bob --bands [{"label":"hourly","capacity":7,"refill":"1h"}] --until 2099-01-31T00:00:00Z`, stdout: written},
				{command: "override list", stdout: "ENDS RULE CALLER NUMBERS BY ID\nMOMENT per-user userId bob hourly: 7 WHO " + bob.ID() + "\n- per-user userId acme 0.5 times WHO " + id},
				{command: "override delete --rule per-user --caller userId=eve", code: exitError, stderr: "rule per-user has no override of userId eve: see fluxgate override list"},
				{command: "override delete --rule per-user --caller userId=acme --dry-run", stdout: "1 override checked", stderr: "this was a dry run"},
				{command: "override delete --rule per-user --caller userId=acme", stdout: deleted},
				{command: "override delete --rule per-user --caller userId=bob", stdout: deleted},
				{command: "override list", stdout: "api-limits has no overrides"},
			})
		})
	}
}

// What cannot be written is refused with the reason, and nothing is written.
func TestOverride_Refused(t *testing.T) {
	for name, at := range overrideTargets(t) {
		t.Run(name, func(t *testing.T) {
			at.runLines(t, "", []line{
				{command: "override set --rule per-user --caller ip=192.0.2.1 --times 2", code: exitError, stderr: "Nothing was changed.\n  override 1 (per-user, ip 192.0.2.1): the identity has no userId"},
				{command: "override set --rule per-user --times 2", code: exitError, stderr: "the identity has no userId"},
				{command: "override set --rule per-user --caller userId=acme,ip=192.0.2.1 --times 2", code: exitError, stderr: "other parts than the rule's key: userId"},
				{command: "override set --rule nope --caller userId=acme --times 2", code: exitError, stderr: "override 1 (nope, userId acme): there is no such rule"},
				{command: "override set --rule health --times 2", code: exitError, stderr: "does not limit: its action is allow"},
				{command: "override set --rule per-user --caller userId=acme --times 9000000000000000", code: exitError, stderr: "use a smaller capacity"},
				{command: `override set --rule per-user --caller userId=acme --bands [{"label":"daily","capacity":7,"refill":"1h"}]`, code: exitError, stderr: "another label"},
				{command: "override set --rule per-user --caller userId=acme --times 2 --rule-set nope", code: exitError, stderr: "see fluxgate rules list"},
				{command: "override list --rule-set a/b", code: exitUsage, stderr: "not a rule set id"},
				{command: "override set --caller userId=acme --times 2", code: exitUsage, stderr: "--rule is required"},
				{command: "override set --rule per-user --caller userId=acme", code: exitUsage, stderr: "use either --times or --bands"},
				{command: "override set --rule per-user --caller userId=acme --times two", code: exitUsage, stderr: "--times: must be a number above 0"},
				{command: `override set --rule per-user --caller userId=acme --bands [{"capacity":7,"refil":"1h"}]`, code: exitUsage, stderr: "--bands: bands[0].refil"},
				{command: "override set --rule per-user --caller userId=acme --times 2 --for 1h --until 2099-01-31T00:00:00Z", code: exitUsage, stderr: "use either --for"},
				{command: "override set --rule per-user --caller userId=acme --times 2 --until tomorrow", code: exitUsage, stderr: "--until: must be a moment such as"},
				{command: "override set --rule per-user --caller userId=acme --times 2 --until 2020-01-31T00:00:00Z", code: exitUsage, stderr: "has passed"},
				{command: "override delete --caller userId=acme", code: exitUsage, stderr: "--rule is required"},
				{command: "override apply", code: exitUsage, stderr: "name the overrides"},
				{command: "override list", stdout: "api-limits has no overrides"},
			})
		})
	}
}

// A CSV file is checked as a whole, and written after a confirmation.
func TestOverrideApply(t *testing.T) {
	folder := t.TempDir()
	var customers strings.Builder
	customers.WriteString("rule,userId,times,until,reason\n")
	for i := range 10_001 {
		fmt.Fprintf(&customers, "per-user,customer-%d,%d,,import\n", i, i%9+2)
	}
	write(t, folder, "customers.csv", customers.String())
	write(t, folder, "wrong.csv", "rule,userId,times\nper-user,ada,2\nper-user,bob,two\n")
	write(t, folder, "unfit.csv", "rule,userId,ip,times\nper-user,ada,,2\nper-user,bob,192.0.2.1,2\n")
	for name, at := range overrideTargets(t) {
		t.Run(name, func(t *testing.T) {
			const checked, written = "10001 overrides checked", "10001 overrides written; other servers follow within seconds"
			at.runLines(t, folder, []line{
				{command: "override apply -f FOLDER/wrong.csv --yes", code: exitError, stderr: "line 3: column times: must be a number above 0"},
				{command: "override apply -f FOLDER/unfit.csv --yes", code: exitError,
					stderr: "1 overrides are not valid. Nothing was changed.\n  override 2 (per-user, ip 192.0.2.1, userId bob): the identity has other parts"},
				{command: "override apply -f FOLDER/none.csv", code: exitError, stderr: "no such file"},
				{command: "override apply -f FOLDER/customers.csv --dry-run", stdout: checked, stderr: "this was a dry run"},
				{command: "override apply -f FOLDER/customers.csv", code: exitDrift, stderr: "no terminal to ask"},
				{command: "override list", stdout: "api-limits has no overrides"},
				{command: "override apply -f FOLDER/customers.csv", stdin: &terminal{answer: "y\n"}, stdout: written,
					stderr: "Write 10001 overrides PLACE?"},
				{command: "override apply -f - --yes", stdin: strings.NewReader("rule,userId,times\nper-user,customer-7,99\n"),
					stdout: "1 override written; other servers follow within seconds"},
			})
			all := at.mustCall(t, "override", "list")
			if rows := strings.Count(all, "userId customer-"); rows != 10_001 || strings.Count(all, " 99 times ") != 1 {
				t.Errorf("%d overrides are listed", rows)
			}
		})
	}
}

// An API key is never shown, in no format.
func TestOverride_APIKey(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	at := testTarget{flags: []string{"--server", "http://" + address}}
	at.mustCall(t, "rules", "apply", "--yes", "-f", write(t, t.TempDir(), "rules.yaml",
		"id: api-limits\nrules: [{id: per-key, limitScope: API_KEY, bands: [{capacity: 2, refill: 1h}]}]\n"))
	const key = "secret-key-of-acme"
	said := at.mustCall(t, "override", "set", "--rule", "per-key", "--caller", "apiKey="+key, "--times", "2")
	for _, format := range []string{"table", "json", "yaml"} {
		said += at.mustCall(t, "override", "list", "-o", format)
	}
	said += at.mustCall(t, "override", "delete", "--rule", "per-key", "--caller", "apiKey="+rules.DigestAPIKey(key))
	if strings.Contains(said, key) || !strings.Contains(said, fmt.Sprintf("apiKey %.15s…", rules.DigestAPIKey(key))) {
		t.Error(said)
	}
}

// Explain names the override that applies.
func TestExplain_Override(t *testing.T) {
	at := overrideTargets(t)["server"]
	at.mustCall(t, "override", "set", "--rule", "per-user", "--caller", "userId=acme", "--times", "10", "--for", "1h")
	const want = "per-user yes counts by userId, override 10 times until MOMENT KEY"
	said := ""
	for range 100 {
		if said = tidy(at.mustCall(t, "explain", "--user", "acme", "--path", "/api/x")); strings.Contains(said, want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("explain says\n%s", said)
}

// A change of rules that overrides do not fit is refused unless it is forced.
func TestRulesApply_Force(t *testing.T) {
	for name, at := range overrideTargets(t) {
		t.Run(name, func(t *testing.T) {
			file := write(t, t.TempDir(), "rules.yaml", strings.Replace(firstRules, "USER_ID", "PER_IP", 1))
			at.mustCall(t, "override", "set", "--rule", "per-user", "--caller", "userId=acme", "--times", "2")
			if name == "server" { // which applies overrides; --direct edits rules without them
				code, _, errs := call(t, append([]string{"rules", "apply", "--yes", "-f", file}, at.flags...)...)
				if code != exitError || !strings.Contains(errs, "would not fit any more") {
					t.Errorf("exit code %d\n%s", code, errs)
				}
			}
			at.mustCall(t, "rules", "apply", "--yes", "--force", "-f", file)
		})
	}
}

// The examples in the help of override work, in their order.
func TestOverride_Examples(t *testing.T) {
	at := overrideTargets(t)["server"]
	t.Chdir(t.TempDir())
	write(t, ".", "overrides.csv", "rule,userId,times\nper-user,ada,2\n")
	for _, cmd := range []*cobra.Command{newOverrideSet(), newOverrideList(), newOverrideApply(), newOverrideDelete(), newOverride()} {
		for _, words := range simpleCommands(cmd.Example) {
			for i, word := range words {
				if strings.HasPrefix(word, "[{") { // simpleCommands removes quotes
					words[i] = `[{"label": "hourly", "capacity": 500, "refill": "1h"}]`
				}
			}
			at.mustCall(t, slices.Clone(words[1:])...)
		}
	}
}

// The list says which overrides have ended.
func TestOverrideList_Ended(t *testing.T) {
	past, next := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	var out strings.Builder
	writeOverrides(&out, []rules.OverrideDocument{{ID: "a", Rule: "r", Times: 2000, Until: &past}, {ID: "b", Rule: "r", Times: 2000, Until: &next}}, &rules.Set{})
	if got := tidy(out.String()); !strings.Contains(got, "MOMENT (ended) r all callers 2 times - a\nMOMENT r all callers 2 times - b") {
		t.Error(got)
	}
}

// An end in so much time is a whole second.
func TestOverrideSet_For(t *testing.T) {
	f := setFlags{callerFlags: callerFlags{rule: "r"}, times: "2", duration: time.Hour}
	now := time.Date(2026, 5, 4, 10, 0, 0, 900e6, time.UTC)
	if o, err := f.read(now); err != nil || !o.Until.Equal(time.Date(2026, 5, 4, 11, 0, 0, 0, time.UTC)) {
		t.Error(o.Until, err)
	}
}

// Numbers of overrides in money are read and shown. Another currency than the rule's is refused.
func TestOverride_Money(t *testing.T) {
	folder := t.TempDir()
	file := write(t, folder, "rules.yaml", "id: api-limits\nrules:\n"+
		"  - {id: budget, cost: usd, limitScope: USER_ID, bands: [{label: month, kind: quota, capacity: 12.40 USD, period: month}]}\n"+
		"  - {id: tokens, cost: tokens, limitScope: USER_ID, bands: [{label: month, kind: quota, capacity: 12400, period: month}]}\n")
	csv := func(name, rule, capacity string) {
		write(t, folder, name, "rule,userId,bands\n"+rule+`,acme,"[{""label"": ""month"", ""kind"": ""quota"", ""capacity"": `+capacity+`, ""period"": ""month""}]"`+"\n")
	}
	csv("right.csv", "budget", `""600 usd""`)
	csv("euros.csv", "budget", `""600 EUR""`)
	csv("tokens.csv", "tokens", `""600 USD""`)
	csv("decimals.csv", "budget", `""600.001 USD""`)
	csv("many.csv", "tokens", `1240000`)
	csv("nope.csv", "nope", `""600 USD""`)
	for name, at := range overrideTargets(t) {
		t.Run(name, func(t *testing.T) {
			at.mustCall(t, "rules", "apply", "--yes", "-f", file)
			const written = "1 override written; other servers follow within seconds"
			at.runLines(t, folder, []line{
				{command: `override set --rule budget --caller userId=acme --bands [{"label":"month","kind":"quota","capacity":"600EUR","period":"month"}]`,
					code: exitUsage, stderr: `--bands: bands[0].capacity: must be a whole number, or money such as 500 USD or 12.40 USD, not "600EUR"`},
				{command: "override apply --yes -f FOLDER/euros.csv", code: exitError, stderr: "Nothing was changed.\n" +
					`  override 1 (budget, userId acme): band 0 is in EUR, but the rule counts "usd": set its cost to eur, or write a whole number`},
				{command: "override apply --yes -f FOLDER/tokens.csv", code: exitError, stderr: `band 0 is in USD, but the rule counts "tokens"`},
				{command: "override apply --yes -f FOLDER/decimals.csv", code: exitError,
					stderr: `line 2: column bands: bands[0].capacity: must have at most 2 decimals in USD, not "600.001 USD"`},
				{command: "override apply --yes -f FOLDER/nope.csv", code: exitError, stderr: "there is no such rule"},
				{command: "override list", stdout: "api-limits has no overrides"},
				{command: "override apply --yes -f FOLDER/right.csv", stdout: written},
				{command: "override apply --yes -f FOLDER/many.csv", stdout: written},
			})
			out := at.mustCall(t, "override", "list")
			for _, want := range []string{"month: $600.00", "month: 1.24M"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
			if out := at.mustCall(t, "override", "list", "-o", "json"); !strings.Contains(out, `"capacity": 600000000`) {
				t.Error(out)
			}
			out = at.mustCall(t, "explain", "--user", "acme")
			for _, want := range []string{"$600.00", "override month: $600.00", "1.24M", "override month: 1.24M"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
		})
	}
}

// secondFails is an operator that refuses every second change of overrides.
type secondFails struct {
	admin.Operator
	calls int
}

func (s *secondFails) PutOverrides(context.Context, string, []rules.Override, bool) (*admin.OverridesChanged, error) {
	if s.calls++; s.calls%2 == 0 {
		return nil, rules.ErrTooManyOverrides
	}
	return &admin.OverridesChanged{}, nil
}

// Overrides that take several calls fail with the number of those that are written.
func TestOverride_WrittenInPart(t *testing.T) {
	f := overrideFlags{ruleSet: "api-limits"}
	changes := make([]rules.Override, admin.MaxOverrides+5)
	err := f.put(t.Context(), &secondFails{}, changes, false)
	if err == nil || !errors.Is(err, rules.ErrTooManyOverrides) || !strings.Contains(err.Error(), "10000 of 10005 overrides were written by earlier calls") {
		t.Errorf("%v", err)
	}
	if err := f.put(t.Context(), &secondFails{}, changes, true); err == nil || strings.Contains(err.Error(), "written") {
		t.Errorf("of a dry run: %v", err)
	}
	// Of a secret the list and errors show the first digits of its digest.
	text := callerText(map[string]string{"header:authorization": "Bearer open-sesame", "userId": "ann"})
	if strings.Contains(text, "sesame") || !strings.Contains(text, "sha256:") || !strings.Contains(text, "userId ann") {
		t.Errorf("a caller is shown as %s", text)
	}
}
