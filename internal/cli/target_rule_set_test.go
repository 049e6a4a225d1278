package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// Without --rule-set commands use the default rule set, which must exist.
func TestDefaultRuleSet_Commands(t *testing.T) {
	for name, at := range testTargets(t) {
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
				wants(exitUsage, "the default rule set api-limits does not exist: choose one with --rule-set: one, two\n", command)
				wants(exitOK, "two-rule", command+" --user ada --rule-set two")
			}
			apply("api-limits")
			for _, command := range []string{"explain --user ada", "bucket peek --user ada"} {
				wants(exitOK, "api-limits-rule", command)
			}
		})
	}
}

// identity is an operator with another answer to Whoami.
type identity struct {
	admin.Operator
	who *admin.Who
}

func (s identity) Whoami(context.Context) (*admin.Who, error) {
	return s.who, nil
}

// Without a default the only rule set is used.
func TestDefaultRuleSet_OnlyOne(t *testing.T) {
	source := memrules.New(memrules.Config{})
	for i, want := range []string{"there are no rule sets", "set-00", "there are several rule sets: choose one with --rule-set: set-00, set-01"} {
		if i > 0 {
			set, err := rules.NewSet(fmt.Sprintf("set-%02d", i-1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.Put(t.Context(), set, rules.Change{Author: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		// The last may look at one rule set alone, which is not the default.
		for _, who := range []*admin.Who{{}, {DefaultRuleSet: "api-limits", RuleSets: []string{"set-00"}}} {
			got, err := defaultRuleSet(t.Context(), identity{admin.NewDirect(source, nil, ""), who})
			if said := got + fmt.Sprint(err); !strings.Contains(said, want) {
				t.Errorf("with %d rule sets: %s", i, said)
			}
		}
	}
}
