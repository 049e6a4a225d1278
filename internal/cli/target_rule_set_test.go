package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
)

// Without --rule-set commands use the default rule set, which must exist.
func TestDefaultRuleSet_Commands(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	at := testTarget{flags: []string{"-s", "http://" + address}}
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
	wants(exitError, "see fluxgate rules list", "explain")
	apply("one", "two")
	wants(exitError, "\nsee fluxgate rules list for the existing rule sets\n", "explain")
	wants(exitOK, "two-rule", "explain --user ada --rule-set two")
	apply("api-limits")
	wants(exitOK, "api-limits-rule", "explain --user ada")
}

// identity is an operator with another answer to Whoami.
type identity struct {
	admin.Operator
	who *admin.Who
}

func (s identity) Whoami(context.Context) (*admin.Who, error) {
	return s.who, nil
}

// A caller that may not read the default gets the only rule set that it may read.
func TestDefaultRuleSet_OfCaller(t *testing.T) {
	for _, c := range []struct {
		who  admin.Who
		want string
	}{
		{admin.Who{DefaultRuleSet: "api-limits"}, "api-limits"},
		{admin.Who{DefaultRuleSet: "api-limits", RuleSets: []string{"other", "api-limits"}}, "api-limits"},
		{admin.Who{DefaultRuleSet: "api-limits", RuleSets: []string{"other"}}, "other"},
		{admin.Who{DefaultRuleSet: "api-limits", RuleSets: []string{"other", "third"}}, "choose a rule set with --rule-set"},
		{admin.Who{}, "choose a rule set with --rule-set"},
	} {
		got, err := defaultRuleSet(t.Context(), identity{who: &c.who})
		if said := got + fmt.Sprint(err); !strings.HasPrefix(said, c.want) {
			t.Errorf("%+v: %s", c.who, said)
		}
	}
}
