package cli

import (
	"cmp"
	"strings"
	"testing"
)

// The commands of docs/customers.md print what the page shows.
func TestDocs_Customers(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	t.Setenv(adminVariable, "http://"+address)
	steps, commands := sessionSteps(t, "docs/customers.md", "Set, list and end"), 0
	t.Chdir(t.TempDir())
	for _, step := range steps {
		if name := cmp.Or(step.file, strings.TrimPrefix(step.command, "cat ")); name != step.command {
			write(t, ".", name, step.output)
			continue
		}
		commands++
		if code, out, errs := call(t, strings.Fields(step.command)[1:]...); code != exitOK || tidy(out) != tidy(step.output) {
			t.Fatalf("%s: exit code %d\n%s%s\nwant\n%s", step.command, code, tidy(out), errs, tidy(step.output))
		}
	}
	if commands != 5 {
		t.Errorf("%d commands", commands)
	}
}

// Callers without a plan, or with one that no rule names, have the smallest plan: of docs/customers.md
// and of docs/faq.md.
func TestDocs_Plans(t *testing.T) {
	_, plans := stepsOf(section(t, "docs/customers.md", "Plans"))
	_, tiers := stepsOf(section(t, "docs/faq.md", "How do I give some callers more?"))
	if len(plans) != 1 || len(tiers) != 1 {
		t.Fatalf("%d and %d blocks", len(plans), len(tiers))
	}
	for _, c := range []struct{ rules, attribute, more, least, most string }{
		{"id: plans\nrules:\n" + plans[0] + "\n", "plan", "pro", "free hourly 100", "pro hourly 1000"},
		{tiers[0] + "\n", "tier", "premium", "standard m 100", "premium m 1000"},
	} {
		file := write(t, t.TempDir(), "rules.yaml", c.rules)
		_, address := serveWith(t, "rules.file="+file, "redis.enabled=false", "mongo.enabled=false", "ratelimit.default-rule-set-id=plans")
		at := testTarget{flags: []string{"-s", "http://" + address}}
		for value, want := range map[string]string{c.more: c.most, "free": c.least, "gold": c.least, "PRO": c.least, "": c.least} {
			args := []string{"check", "--user", "ada-" + value, "--peek"}
			if value != "" {
				args = append(args, "--attribute", c.attribute+"="+value)
			}
			words := strings.Fields(want) // as in RULE LIMIT LEFT OF
			if said := tidy(at.mustCall(t, args...)); !strings.Contains(said, strings.Join(append(words, words[2]), " ")) {
				t.Errorf("%s %q:\n%s", c.attribute, value, said)
			}
		}
	}
}

// Rules that keep a part free apply as docs/customers.md says.
func TestDocs_ImportantCallers(t *testing.T) {
	_, others := stepsOf(section(t, "docs/customers.md", "Keep a part free for important callers"))
	if len(others) != 1 {
		t.Fatalf("%d blocks", len(others))
	}
	file := write(t, t.TempDir(), "rules.yaml", "id: api-limits\nrules:\n"+others[0]+"\n")
	address, _ := serveWith(t, "rules.file="+file, "redis.enabled=false", "mongo.enabled=false")
	at := testTarget{flags: []string{"-s", "http://" + address}}
	for tier, want := range map[string]string{
		"important": "everyone yes counts all together KEY\nimportant yes allows it -\nrules of api-limits that do not apply: 1",
		"usual":     "everyone yes counts all together KEY\nothers yes counts all together KEY\nrules of api-limits that do not apply: 1",
	} {
		if said := tidy(at.mustCall(t, "explain", "--attribute", "tier="+tier)); !strings.Contains(said, want) {
			t.Errorf("tier %s:\n%s", tier, said)
		}
	}
}
