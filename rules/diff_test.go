package rules_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

func newSet(t testing.TB, all ...rules.Rule) *rules.Set {
	t.Helper()
	set, err := rules.NewSet("api", all...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// shortly formats a diff with one line for each rule.
func shortly(diffs []rules.RuleDiff) string {
	var lines []string
	for _, d := range diffs {
		line := string(d.Change) + " " + d.Rule
		for _, f := range d.Fields {
			line += fmt.Sprintf(" | %s %s > %s", f.Path, f.Before, f.After)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// a returns a rule with a value in most fields.
func a() rules.Rule {
	return rules.Rule{
		ID: "a", Paths: []string{"/x"}, Scope: rules.ScopeComposite, KeyFields: []string{"ip", "path"},
		Bands: []rules.Band{{Label: "hourly", Capacity: 2, Refill: time.Hour}},
		When:  rules.When{Users: []string{"ada", "bob"}},
	}
}

// A change of any field of a rule is in the diff. The test fails if a rule has a
// new field that it does not know.
func TestDiff_EveryField(t *testing.T) {
	cases := map[string]struct {
		change func(r *rules.Rule)
		want   string
	}{
		"ID":            {nil, ""}, // another id is another rule
		"RuleSetID":     {nil, ""}, // always that of the rule set
		"CreatedAt":     {func(r *rules.Rule) { r.CreatedAt = time.Now() }, ""},
		"UpdatedAt":     {func(r *rules.Rule) { r.UpdatedAt = time.Now() }, ""},
		"Paths":         {func(r *rules.Rule) { r.Paths = []string{"/x", "/y"} }, `paths ["/x"] > ["/x","/y"]`},
		"IgnoreCase":    {func(r *rules.Rule) { r.IgnoreCase = true }, `ignoreCase false > true`},
		"Methods":       {func(r *rules.Rule) { r.Methods = []string{"GET"} }, `methods  > ["GET"]`},
		"Scope":         {func(r *rules.Rule) { r.Scope, r.KeyFields = "", nil }, `limitScope "COMPOSITE" > "GLOBAL" | compositeKeyFields ["ip","path"] > `},
		"KeyFields":     {func(r *rules.Rule) { r.KeyFields = []string{"path", "ip"} }, `compositeKeyFields ["ip","path"] > ["path","ip"]`},
		"Cost":          {func(r *rules.Rule) { r.Cost = rules.MeasureTokens }, `cost "requests" > "tokens"`},
		"Priority":      {func(r *rules.Rule) { r.Priority = -1<<53 - 1 }, `priority 0 > -9007199254740993`},
		"Group":         {func(r *rules.Rule) { r.Group = "plan" }, `group  > "plan"`},
		"Action":        {func(r *rules.Rule) { r.Action = rules.ActionDeny }, `action "limit" > "deny"`},
		"Disabled":      {func(r *rules.Rule) { r.Disabled = true }, `enabled true > false`},
		"Until":         {func(r *rules.Rule) { r.Until = time.Unix(0, 0) }, `until  > "1970-01-01T00:00:00Z"`},
		"OnLimitExceed": {func(r *rules.Rule) { r.OnLimitExceed = rules.Reject }, `onLimitExceed  > "REJECT"`},
		"Mode":          {func(r *rules.Rule) { r.Mode = rules.ModeShadow }, `mode "enforce" > "shadow"`},
		"OnFailure":     {func(r *rules.Rule) { r.OnFailure = rules.FailLocal }, `onFailure  > "local"`},
		"Overdraft":     {func(r *rules.Rule) { r.Overdraft = true }, `overdraft false > true`},
		"CountRefused": {func(r *rules.Rule) {
			r.CountRefused, r.Bands[0] = true, rules.Band{Label: "hourly", Capacity: 2, Kind: rules.Quota, Period: "hour"}
		}, `bands[hourly].kind "token-bucket" > "quota" | bands[hourly].period  > "hour" | bands[hourly].refill "1h" >  | bands[hourly].timezone  > "UTC" | countRefused false > true`},
		"Replaces":          {func(r *rules.Rule) { r.Replaces = []string{"other"} }, `replaces  > ["other"]`},
		"Consistency":       {func(r *rules.Rule) { r.Consistency = rules.ConsistencyStrict }, `consistency "auto" > "strict"`},
		"OnMissingIdentity": {func(r *rules.Rule) { r.OnMissingIdentity = rules.MissingRefuse }, `onMissingIdentity "ip" > "refuse"`},
		"Attributes":        {func(r *rules.Rule) { r.Attributes = map[string]any{"owner": "<team>"} }, `attributes.owner  > "<team>"`},
		"When.Hosts":        {func(r *rules.Rule) { r.When.Hosts = []string{"a.example.com"} }, `when.hosts  > ["a.example.com"]`},
		"When.ExcludePaths": {func(r *rules.Rule) { r.When.ExcludePaths = []string{"/x/y"} }, `when.excludePaths  > ["/x/y"]`},
		"When.Headers":      {func(r *rules.Rule) { r.When.Headers = map[string][]string{"X-A": {"1"}} }, `when.headers.X-A  > ["1"]`},
		"When.Attributes":   {func(r *rules.Rule) { r.When.Attributes = map[string][]string{"tier": {"*"}} }, `when.attributes.tier  > ["*"]`},
		"When.IPs":          {func(r *rules.Rule) { r.When.IPs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, `when.ips  > ["10.0.0.0/8"]`},
		"When.Users":        {func(r *rules.Rule) { r.When.Users = []string{"bob", "eve"} }, `when.users[-] ["ada"] >  | when.users[+]  > ["eve"]`},
		"When.APIKeys":      {func(r *rules.Rule) { r.When.APIKeys = []string{"foobar"} }, `when.apiKeys  > ["sha256:c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"]`},
		"When.Descriptor": {func(r *rules.Rule) {
			r.When.Descriptor = []rules.DescriptorMatch{{Key: "b", Value: "2*", Except: []string{"21"}}, {Key: "a"}}
		}, `when.descriptor  > [{"except":["21"],"key":"b","value":"2*"},{"key":"a"}]`},
		"Bands.Label":        {func(r *rules.Rule) { r.Bands[0].Label = "h" }, `bands[h]  > {"capacity":2,"refill":"1h"} | bands[hourly] {"capacity":2,"refill":"1h"} > `},
		"Bands.Capacity":     {func(r *rules.Rule) { r.Bands[0].Capacity = 100 }, `bands[hourly].capacity 2 > 100`},
		"Bands.RefillTokens": {func(r *rules.Rule) { r.Bands[0].RefillTokens = 1 }, `bands[hourly].refillTokens  > 1`},
		"Bands.Refill":       {func(r *rules.Rule) { r.Bands[0].Refill = 90 * time.Minute }, `bands[hourly].refill "1h" > "90m"`},
		"Bands.Kind":         {func(r *rules.Rule) { r.Bands[0].Kind = rules.SlidingWindow }, `bands[hourly].kind "token-bucket" > "sliding-window" | bands[hourly].period  > "1h" | bands[hourly].refill "1h" > `},
		"Bands.Period": {func(r *rules.Rule) {
			r.Bands[0] = rules.Band{Label: "hourly", Capacity: 2, Kind: rules.Quota, Period: "hour"}
		}, `bands[hourly].kind "token-bucket" > "quota" | bands[hourly].period  > "hour" | bands[hourly].refill "1h" >  | bands[hourly].timezone  > "UTC"`},
		"Bands.Timezone": {func(r *rules.Rule) {
			r.Bands[0] = rules.Band{Capacity: 2, Kind: rules.Quota, Period: "day", Timezone: "Asia/Tokyo"}
		}, `bands[0]  > {"capacity":2,"kind":"quota","period":"day","timezone":"Asia/Tokyo"} | bands[hourly] {"capacity":2,"refill":"1h"} > `},
		"Bands.WarnAt": {func(r *rules.Rule) {
			r.Bands[0] = rules.Band{Capacity: 2, Kind: rules.Quota, Period: "day", WarnAt: rules.Percents{80, 100}}
		}, `bands[0]  > {"capacity":2,"kind":"quota","period":"day","timezone":"UTC","warnAt":["80%","100%"]} | bands[hourly] {"capacity":2,"refill":"1h"} > `},
		"Bands.Hold": {func(r *rules.Rule) {
			r.Bands[0] = rules.Band{Label: "hourly", Capacity: 2, Kind: rules.Concurrency, Hold: 90 * time.Second}
		}, `bands[hourly].hold  > "90s" | bands[hourly].kind "token-bucket" > "concurrency" | bands[hourly].refill "1h" > `},
	}
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rules.Rule]()) {
		switch f.Name {
		case "When", "Bands":
			inner := f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			for _, g := range reflect.VisibleFields(inner) {
				if g.IsExported() {
					fields = append(fields, f.Name+"."+g.Name)
				}
			}
		default:
			fields = append(fields, f.Name)
		}
	}
	for _, field := range fields {
		c, known := cases[field]
		if !known {
			t.Errorf("the test has no case for the field %s", field)
		}
		if c.change == nil {
			continue
		}
		changed := a()
		c.change(&changed)
		want := ""
		if c.want != "" {
			want = "changed a | " + c.want
		}
		if got := shortly(rules.Diff(newSet(t, a()), newSet(t, changed))); got != want {
			t.Errorf("a change of %s is\n%s\nwant\n%s", field, got, want)
		}
	}
}

// Rules with the same meaning have no diff.
func TestDiff_SameMeaning(t *testing.T) {
	limit := func(b ...rules.Band) rules.Rule { return rules.Rule{ID: "a", Bands: b} }
	with := func(change func(r *rules.Rule)) rules.Rule {
		r := limit(rules.PerHour(5))
		change(&r)
		return r
	}
	bare := limit(rules.PerHour(5))
	for name, pair := range map[string][2]rules.Rule{
		"all that is left out": {bare, with(func(r *rules.Rule) {
			r.Scope, r.Action, r.Mode, r.OnMissingIdentity = rules.ScopeGlobal, rules.ActionLimit, rules.ModeEnforce, rules.MissingIP
			r.RuleSetID, r.Methods, r.Bands[0].Kind, r.Bands[0].RefillTokens = "api", []string{"*"}, rules.TokenBucket, 5
			r.Cost = rules.MeasureRequests
		})},
		"nothing and empty": {bare, with(func(r *rules.Rule) {
			r.Paths, r.Methods, r.KeyFields, r.Attributes = []string{}, []string{}, []string{}, map[string]any{}
			r.When = rules.When{Hosts: []string{}, Headers: map[string][]string{}, IPs: []netip.Prefix{}, Users: []string{}}
		})},
		"UTC as the time zone of a quota": {limit(rules.Band{Kind: rules.Quota, Capacity: 1, Period: "day"}), limit(rules.Band{Kind: rules.Quota, Capacity: 1, Period: "day", Timezone: "UTC"})},
		"another spelling of a scope":     {with(func(r *rules.Rule) { r.Scope = "PER_USER" }), with(func(r *rules.Rule) { r.Scope = rules.ScopeUser })},
		"another order of sets": {
			with(func(r *rules.Rule) {
				r.Paths, r.Methods, r.When.Users = []string{"/a", "/b"}, []string{"GET", "PUT"}, []string{"ada", "bob"}
				r.When.Headers = map[string][]string{"X": {"1", "2"}}
			}),
			with(func(r *rules.Rule) {
				r.Paths, r.Methods, r.When.Users = []string{"/b", "/a"}, []string{"PUT", "GET"}, []string{"bob", "ada", "bob"}
				r.When.Headers = map[string][]string{"X": {"2", "1"}}
			}),
		},
		"any value of an entry, and another order of its exceptions": {
			with(func(r *rules.Rule) {
				r.When.Descriptor = []rules.DescriptorMatch{{Key: "a"}, {Key: "b", Except: []string{"1", "2"}}}
			}),
			with(func(r *rules.Rule) {
				r.When.Descriptor = []rules.DescriptorMatch{{Key: "a", Value: "*"}, {Key: "b", Except: []string{"2", "1"}}}
			}),
		},
		"a key and its digest": {
			with(func(r *rules.Rule) { r.When.APIKeys = []string{"foobar"} }),
			with(func(r *rules.Rule) {
				r.When.APIKeys = []string{"sha256:C3AB8FF13720E8AD9047DD39466B3C8974E592C2FA383D4A3960714CAEF0C4F2"}
			}),
		},
		"numbers of several types": {
			with(func(r *rules.Rule) {
				r.Attributes = map[string]any{"n": 5, "tree": map[string]any{"list": []any{int64(7), 0.25}}}
			}),
			with(func(r *rules.Rule) {
				r.Attributes = map[string]any{"n": json.Number("5"), "tree": map[string]any{"list": []any{7.0, json.Number("0.25")}}}
			}),
		},
	} {
		if got := rules.Diff(newSet(t, pair[0]), newSet(t, pair[1])); len(got) > 0 {
			t.Errorf("%s: %s", name, shortly(got))
		}
		if got := rules.Diff(newSet(t, pair[1]), newSet(t, pair[0])); len(got) > 0 {
			t.Errorf("%s, the other way: %s", name, shortly(got))
		}
	}
}

// Of a descriptor whose exceptions changed, only these are shown.
func TestDiff_Exceptions(t *testing.T) {
	with := func(except ...string) *rules.Set {
		return newSet(t, rules.Rule{ID: "a", Action: rules.ActionDeny, When: rules.When{
			Descriptor: []rules.DescriptorMatch{{Key: "k", Value: "v"}, {Key: "l", Except: except}},
		}})
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i))
	}
	other := newSet(t, rules.Rule{ID: "a", Action: rules.ActionDeny, When: rules.When{
		Descriptor: []rules.DescriptorMatch{{Key: "k", Value: "v"}, {Key: "m", Except: []string{"x"}}},
	}})
	for want, sets := range map[string][2]*rules.Set{
		`changed a | when.descriptor[1].key "l" > "m"`:                                                 {with("x"), other},
		`changed a | when.descriptor[1].except ["x"] > ["x","y*"]`:                                     {with("x"), with("x", "y*")},
		`changed a | when.descriptor[1].except[-] ["0"] >  | when.descriptor[1].except[+]  > ["more"]`: {with(many...), with(append(many[1:], "more")...)},
	} {
		if got := shortly(rules.Diff(sets[0], sets[1])); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// The rules of a diff are in evaluation order.
func TestDiff_Order(t *testing.T) {
	deny := func(id string, priority int) rules.Rule {
		return rules.Rule{ID: id, Priority: priority, Action: rules.ActionDeny}
	}
	before := newSet(t, deny("first", 9), deny("gone-high", 8), deny("moved", 7), deny("same", 5), deny("gone-b", 5), deny("gone-low", 1))
	after := newSet(t, deny("first", 9), deny("new", 8), deny("same", 5), deny("moved", 2))
	for name, c := range map[string]struct {
		before, after *rules.Set
		want          string
	}{
		"from one to the other": {before, after, `removed gone-high | priority 8 >  | action "deny" > 
added new | priority  > 8 | action  > "deny"
removed gone-b | priority 5 >  | action "deny" > 
changed moved | priority 7 > 2
removed gone-low | priority 1 >  | action "deny" > `},
		"from nothing": {nil, newSet(t, deny("x", 0), deny("y", 1)), `added y | priority  > 1 | action  > "deny"
added x | action  > "deny"`},
		"to nothing": {newSet(t, deny("x", 0), deny("y", 1)), nil, `removed y | priority 1 >  | action "deny" > 
removed x | action "deny" > `},
		"from nothing to nothing":    {nil, nil, ""},
		"from nothing to an empty":   {nil, newSet(t), ""},
		"from one to the same":       {before, before, ""},
		"from a rule set to another": {before, renamed(t, before, "other"), ""},
	} {
		if got := shortly(rules.Diff(c.before, c.after)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// renamed returns the same rules under another id.
func renamed(t *testing.T, set *rules.Set, id string) *rules.Set {
	t.Helper()
	all := slices.Collect(set.Rules())
	for i := range all {
		all[i].RuleSetID = id
	}
	other, err := rules.NewSet(id, all...)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// Bands are compared by label, or by position without one.
func TestDiff_Bands(t *testing.T) {
	hour := func(label string, capacity, tokens int64) rules.Band {
		return rules.Band{Label: label, Capacity: capacity, RefillTokens: tokens, Refill: time.Hour}
	}
	type bands = []rules.Band
	for name, c := range map[string]struct {
		before, after bands
		want          string
	}{
		"refill tokens that are the capacity":         {bands{hour("b", 2, 2)}, bands{hour("b", 100, 0)}, `bands[b].capacity 2 > 100`},
		"refill tokens that stay at the old capacity": {bands{hour("b", 2, 2)}, bands{hour("b", 100, 2)}, `bands[b].capacity 2 > 100 | bands[b].refillTokens  > 2`},
		"refill tokens that become the capacity":      {bands{hour("b", 9, 3)}, bands{hour("b", 3, 3)}, `bands[b].capacity 9 > 3 | bands[b].refillTokens 3 > `},
		"one that moves":                              {bands{hour("b", 1, 1), hour("c", 2, 2)}, bands{hour("c", 2, 2), hour("b", 1, 1)}, `bands.order ["b","c"] > ["c","b"]`},
		"one that is put first":                       {bands{hour("b", 1, 1)}, bands{hour("c", 2, 1), hour("b", 1, 1)}, `bands[c]  > {"capacity":2,"refill":"1h","refillTokens":1}`},
		"a quota in another zone":                     {bands{{Kind: rules.Quota, Capacity: 1, Period: "day"}}, bands{{Kind: rules.Quota, Capacity: 1, Period: "week", Timezone: "Asia/Tokyo"}}, `bands[0].period "day" > "week" | bands[0].timezone "UTC" > "Asia/Tokyo"`},
		"slots that are held longer":                  {bands{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Second}}, bands{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}}, `bands[0].hold "1s" > "1m"`},
		"slots that are new":                          {bands{hour("b", 1, 1)}, bands{hour("b", 1, 1), {Kind: rules.Concurrency, Capacity: 1, Hold: time.Second}}, `bands[1]  > {"capacity":1,"hold":"1s","kind":"concurrency"}`},
		"one that says the default kind":              {bands{hour("b", 1, 1)}, bands{hour("b", 1, 1), {Label: "c", Kind: rules.TokenBucket, Capacity: 2, Refill: time.Hour}}, `bands[c]  > {"capacity":2,"refill":"1h"}`},
		"one without a label that changes":            {bands{hour("b", 1, 1), hour("", 2, 2)}, bands{hour("b", 1, 1), hour("", 3, 3)}, `bands[1].capacity 2 > 3`},
		"one without a label that moves":              {bands{hour("", 2, 2)}, bands{hour("b", 1, 1), hour("", 2, 2)}, `bands[b]  > {"capacity":1,"refill":"1h"} | bands[1]  > {"capacity":2,"refill":"1h"} | bands[0] {"capacity":2,"refill":"1h"} > `},
		"a label that looks like a position":          {bands{hour("0", 2, 2)}, bands{hour("", 2, 2)}, `bands[0]  > {"capacity":2,"refill":"1h"} | bands["0"] {"capacity":2,"refill":"1h"} > `},
		"a period that is not of whole seconds":       {bands{{Label: "b", Capacity: 1, Refill: time.Second}}, bands{{Label: "b", Capacity: 1, Refill: 1500 * time.Millisecond}}, `bands[b].refill "1s" > "1500ms"`},
		"a period of minutes, and one of a week":      {bands{{Label: "b", Capacity: 1, Refill: 10 * time.Minute}}, bands{{Label: "b", Capacity: 1, Refill: 168 * time.Hour}}, `bands[b].refill "10m" > "7d"`},
	} {
		want := "changed a | " + c.want
		got := shortly(rules.Diff(newSet(t, rules.Rule{ID: "a", Bands: c.before}), newSet(t, rules.Rule{ID: "a", Bands: c.after})))
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}
