package rules_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// withTables returns a rule set with cost tables.
func withTables(t testing.TB, set *rules.Set, tables rules.CostTables) *rules.Set {
	t.Helper()
	set, err := set.WithCostTables(tables)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// weights returns weights with the defaults of the others.
func weights(input, output int64) rules.Weights {
	return rules.Weights{Input: input, CachedInput: input, Output: output, Reasoning: output}
}

// A change of the cost tables is in the diff, before the rules, also if no rule has
// changed.
func TestDiff_CostTables(t *testing.T) {
	with := func(w rules.Weights, change func(*rules.Weights)) rules.Weights {
		change(&w)
		return w
	}
	one := rules.CostTables{"usd": {"*": weights(1, 2)}}
	for name, c := range map[string]struct {
		before, after rules.CostTables
		want          string
	}{
		"the same":  {one, rules.CostTables{"usd": {"*": weights(1, 2)}}, ""},
		"no tables": {nil, rules.CostTables{}, ""},
		"new":       {nil, one, `added cost tables | costTables.usd["*"]  > {"input":1,"output":2}`},
		"removed":   {one, nil, `removed cost tables | costTables.usd["*"] {"input":1,"output":2} > `},
		"another weight": {
			one, rules.CostTables{"usd": {"*": weights(3, 2)}},
			`changed cost tables | costTables.usd["*"].input 1 > 3`,
		},
		"another weight, and a cached one that stays": {
			one, rules.CostTables{"usd": {"*": with(weights(3, 2), func(w *rules.Weights) { w.CachedInput = 1 })}},
			`changed cost tables | costTables.usd["*"].cachedInput  > 1 | costTables.usd["*"].input 1 > 3`,
		},
		"free reasoning": {
			one, rules.CostTables{"usd": {"*": with(weights(1, 2), func(w *rules.Weights) { w.Reasoning = 0 })}},
			`changed cost tables | costTables.usd["*"].reasoning  > 0`,
		},
		"a maximum": {
			one, rules.CostTables{"usd": {"*": with(weights(1, 2), func(w *rules.Weights) { w.MaxOutputTokens = 1_000_000_000_000_000 })}},
			`changed cost tables | costTables.usd["*"].maxOutputTokens  > 1000000000000000`,
		},
		"another model and another measure": {
			one, rules.CostTables{"usd": {"*": weights(1, 2), "gpt-4.1": weights(0, 5)}, "tokens": {"*": weights(1, 1)}},
			`changed cost tables | costTables.tokens["*"]  > {"input":1,"output":1} | costTables.usd["gpt-4.1"]  > {"input":0,"output":5}`,
		},
	} {
		before, after := withTables(t, newSet(t, a()), c.before), withTables(t, newSet(t, a()), c.after)
		if got := shortly(rules.Diff(before, after)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	added := rules.Diff(nil, withTables(t, newSet(t, a()), one))
	if len(added) != 2 || added[0].Rule != rules.DiffCostTables || added[0].Change != rules.DiffAdded || rules.ValidID(added[0].Rule) {
		t.Errorf("a new rule set: %s", shortly(added))
	}
}
