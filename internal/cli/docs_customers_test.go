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
