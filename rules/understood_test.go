package rules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

func TestSet_Needs(t *testing.T) {
	set, err := rules.NewSet("set",
		rules.Rule{ID: "a", Until: time.Unix(2e9, 0), Bands: []rules.Band{rules.PerHour(1)}},
		rules.Rule{ID: "b", Bands: []rules.Band{{Kind: rules.Quota, Capacity: 1, Period: "month", WarnAt: rules.Percents{80}}, rules.PerMinute(1)}},
		rules.Rule{ID: "c", Action: rules.ActionDeny})
	if err != nil {
		t.Fatal(err)
	}
	needs := set.Needs()
	if want := []string{"until", "token-bucket", "quota", "warnAt"}; !slices.Equal(needs, want) {
		t.Errorf("needs %q, want %q", needs, want)
	}
	for name, c := range map[string]struct{ understands, missing []string }{
		"this version":        {rules.Understood(), nil},
		"an early version":    {nil, []string{"until", "warnAt"}},
		"one without a quota": {[]string{"token-bucket", "until", "warnAt"}, []string{"quota"}},
	} {
		if missing := rules.NotUnderstood(needs, c.understands); !slices.Equal(missing, c.missing) {
			t.Errorf("%s does not understand %q, want %q", name, missing, c.missing)
		}
	}
}
