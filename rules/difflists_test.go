package rules_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

func numbered(prefix string, from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

// A long list shows only what was added and removed.
func TestDiff_LongLists(t *testing.T) {
	users := func(list []string) rules.Rule {
		return rules.Rule{ID: "a", Action: rules.ActionDeny, When: rules.When{Users: list}}
	}
	values := func(list []string) rules.Rule {
		return rules.Rule{ID: "a", Action: rules.ActionDeny, When: rules.When{Headers: map[string][]string{"X-A": list}}}
	}
	all := func(list []string) string {
		text, _ := json.Marshal(list)
		return string(text)
	}
	for name, c := range map[string]struct {
		before, after rules.Rule
		want          string
	}{
		"users that come and go": {users(numbered("u", 0, 10_000)), users(numbered("u", 3, 10_000)), `when.users[-] ["u0","u1","u2"] > `},
		"users that come":        {users(numbered("u", 1, 9_999)), users(numbered("u", 0, 10_000)), `when.users[+]  > ["u0","u9999"]`},
		"users that come twice":  {users([]string{"ada", "bob"}), users([]string{"eve", "ada", "eve"}), `when.users[-] ["bob"] >  | when.users[+]  > ["eve"]`},
		// An empty list matches everyone, so the diff shows the whole list.
		"users where there were none": {users(nil), users(numbered("u", 0, 30)), `when.users  > ` + all(numbered("u", 0, 30))},
		"users that are dropped":      {users(numbered("u", 0, 30)), users(nil), `when.users ` + all(numbered("u", 0, 30)) + ` > `},
		"values of a short list":      {values(numbered("v", 0, 16)), values(numbered("v", 1, 16)), `when.headers.X-A ` + all(numbered("v", 0, 16)) + ` > ` + all(numbered("v", 1, 16))},
		"values of a long list":       {values(numbered("v", 0, 17)), values(numbered("v", 1, 17)), `when.headers.X-A[-] ["v0"] > `},
	} {
		if got := shortly(rules.Diff(newSet(t, c.before), newSet(t, c.after))); got != "changed a | "+c.want {
			t.Errorf("%s:\n%s\nwant\nchanged a | %s", name, got, c.want)
		}
	}
}

// Attributes are compared name by name.
func TestDiff_Attributes(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		before, after m
		want          string
	}{
		"another value":             {m{"a": 1, "b": 2}, m{"a": 1, "b": "2"}, `attributes.b 2 > "2"`},
		"one inside":                {m{"a": m{"b": m{"c": 1, "d": 2}}}, m{"a": m{"b": m{"c": 1, "d": 3}}}, `attributes.a.b.d 2 > 3`},
		"one that is there as null": {m{}, m{"a": nil}, `attributes.a  > null`},
		"one that was there":        {m{"a": nil, "b": m{"c": 1}}, m{"b": m{}}, `attributes.a null >  | attributes.b.c 1 > `},
		"a list, whole":             {m{"a": []any{1, m{"b": 2}}}, m{"a": []any{1, m{"b": 3}}}, `attributes.a [1,{"b":2}] > [1,{"b":3}]`},
		"an object and a text":      {m{"a": m{"b": 1}}, m{"a": "b"}, `attributes.a {"b":1} > "b"`},
		"names that are not plain": {
			nil, m{"": 1, "a.b": 2, "x y": 3, "[+]": 4, "ü": 5, "\x1b[31m\u202e\U000e0001": 6},
			`attributes[""]  > 1 | attributes["\u001b[31m\u202e\udb40\udc01"]  > 6 | attributes["[+]"]  > 4 | attributes["a.b"]  > 2 | attributes["x y"]  > 3 | attributes["ü"]  > 5`,
		},
	} {
		rule := func(attributes m) rules.Rule {
			return rules.Rule{ID: "a", Action: rules.ActionDeny, Attributes: attributes}
		}
		if got := shortly(rules.Diff(newSet(t, rule(c.before)), newSet(t, rule(c.after)))); got != "changed a | "+c.want {
			t.Errorf("%s:\n%s\nwant\nchanged a | %s", name, got, c.want)
		}
	}
}

// A diff is the same after encoding and decoding as JSON.
func TestDiff_JSON(t *testing.T) {
	r := a()
	r.Attributes = map[string]any{"none": nil, "html": "<&>", "n": json.Number("1.50")}
	want := rules.Diff(newSet(t, a()), newSet(t, r, rules.Rule{ID: "b", Action: rules.ActionDeny}))
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []rules.RuleDiff
	if err := json.Unmarshal([]byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%s\nwant\n%s", shortly(got), shortly(want))
	}
}

// An abridged diff fits and returns how many rules are left out.
func TestAbridge_Fits(t *testing.T) {
	var before, after []rules.Rule
	for i := range 6 {
		r := a()
		r.ID = fmt.Sprint("rule-", i)
		before = append(before, r)
		r.Priority, r.Group = 3, "g"
		r.When.Users = numbered("<user>", 0, i*10+1)
		after = append(after, r)
	}
	whole := rules.Diff(newSet(t, before...), newSet(t, after...))
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	for most := 0; most < len(text)+100; most += 3 {
		short, left := rules.Abridge(whole, most)
		got, err := json.Marshal(short)
		if err != nil || len(got) > max(most, len("null")) {
			t.Fatalf("in %d bytes: %d bytes (%v)", most, len(got), err)
		}
		if left != len(whole)-len(short) || len(short) > 0 && !reflect.DeepEqual(short, whole[:len(short)]) {
			t.Fatalf("in %d bytes: %d rules are left of %s", most, left, shortly(short))
		}
		if most > len(text)+50 && left > 0 {
			t.Errorf("in %d bytes, where %d are all, %d rules are left", most, len(text), left)
		}
	}
	if short, left := rules.Abridge(nil, 0); short != nil || left != 0 {
		t.Errorf("an empty diff became %v with %d rules left", short, left)
	}
}

// Diff(a, b) has exactly the inverse changes of Diff(b, a), for random rule sets.
func TestDiff_Inverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	some := func(prefix string, most int) (list []string) {
		for range rng.IntN(most) {
			list = append(list, fmt.Sprint(prefix, rng.IntN(most)))
		}
		return list
	}
	anySet := func() *rules.Set {
		all := map[string]rules.Rule{}
		for range rng.IntN(6) {
			r := rules.Rule{
				ID: fmt.Sprint("r", rng.IntN(6)), Priority: rng.IntN(3), Paths: some("/p", 3), Disabled: rng.IntN(2) == 0,
				When:       rules.When{Users: some("u", 30), Hosts: some("h", 25), Headers: map[string][]string{fmt.Sprint("X-", rng.IntN(2)): append(some("v", 4), "v")}},
				OnFailure:  []rules.OnFailure{"", rules.FailOpen, rules.FailLocal}[rng.IntN(3)],
				Attributes: map[string]any{"a": rng.IntN(2), fmt.Sprint("b", rng.IntN(2)): map[string]any{"c": rng.IntN(2)}},
			}
			for i := range 1 + rng.IntN(2) {
				label := []string{"", fmt.Sprint("x", i), fmt.Sprint("y", i)}[rng.IntN(3)]
				r.Bands = append(r.Bands, rules.Band{Label: label, Capacity: 1 + rng.Int64N(2), RefillTokens: rng.Int64N(3), Refill: time.Second})
			}
			all[r.ID] = r
		}
		tables := rules.CostTables{}
		for range rng.IntN(3) {
			tables[fmt.Sprint("m", rng.IntN(2))] = rules.CostTable{
				"*": {Input: rng.Int64N(2), CachedInput: rng.Int64N(2), Output: 1e15 - 1}, fmt.Sprint("gpt-4.", rng.IntN(2)): {Reasoning: rng.Int64N(2), MaxOutputTokens: rng.Int64N(2)},
			}
		}
		return withTables(t, newSet(t, slices.Collect(maps.Values(all))...), tables)
	}
	fieldsOf := func(diffs []rules.RuleDiff, turn bool) []string {
		around := strings.NewReplacer("[+]", "[-]", "[-]", "[+]")
		kinds := map[rules.DiffKind]rules.DiffKind{rules.DiffAdded: rules.DiffRemoved, rules.DiffRemoved: rules.DiffAdded, rules.DiffChanged: rules.DiffChanged}
		var lines []string
		for _, d := range diffs {
			if turn {
				d.Change = kinds[d.Change]
			}
			for _, f := range d.Fields {
				if turn {
					f = rules.FieldDiff{Path: around.Replace(f.Path), Before: f.After, After: f.Before}
				}
				lines = append(lines, fmt.Sprintf("%s %s %s %s > %s", d.Change, d.Rule, f.Path, f.Before, f.After))
			}
		}
		slices.Sort(lines)
		return lines
	}
	differ := 0
	for range 500 {
		one, other := anySet(), anySet()
		there, back := fieldsOf(rules.Diff(one, other), false), fieldsOf(rules.Diff(other, one), true)
		if !slices.Equal(there, back) {
			t.Fatalf("there\n%s\nback\n%s", strings.Join(there, "\n"), strings.Join(back, "\n"))
		}
		if len(there) > 0 {
			differ++
		}
		read, err := rules.Parse([]byte(document(t, one)))
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.Diff(one, read); len(got) > 0 {
			t.Fatalf("after encoding and decoding it differs by\n%s", shortly(got))
		}
	}
	if differ < 100 {
		t.Errorf("only %d pairs differ", differ)
	}
}
