package rules_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// warnings are those of the rules of a set, given as YAML, as lines of kind and text.
func warnings(t *testing.T, text string) []string {
	t.Helper()
	sets, err := filerules.Parse("rules.yaml", []byte("id: s\nrules:\n"+text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var lines []string
	found := sets[0].Warnings()
	for _, w := range found.List {
		lines = append(lines, fmt.Sprint(w.Kind, " ", w))
	}
	if found.More > 0 || found.Uncompared > 0 {
		t.Errorf("%d more, %d not compared", found.More, found.Uncompared)
	}
	return lines
}

// Each kind is found where it was put, and not beside it.
func TestSet_Warnings(t *testing.T) {
	const limit = "bands: [{ capacity: 10, refill: 1s }] }\n"
	for name, c := range map[string]struct {
		rules string
		want  []string
	}{
		"denied": {
			"- { id: no, action: deny, priority: 9, path: /api/** }\n- { id: b, path: /api/users/*, method: GET, " + limit,
			[]string{`unreachable rules[1]: rule "b" applies to no request: rule "no" denies all of them`},
		},
		"denied elsewhere":     {"- { id: no, action: deny, priority: 9, path: /api/* }\n- { id: b, path: /api/**, " + limit, nil},
		"denied afterwards":    {"- { id: no, action: deny, path: /api/** }\n- { id: b, priority: 9, path: /api/a, " + limit, nil},
		"denied until":         {"- { id: no, action: deny, priority: 9, until: 2027-01-31T00:00:00Z }\n- { id: b, path: /api/a, " + limit, nil},
		"denied in a group":    {"- { id: a, group: g, priority: 10, path: /a, " + limit + "- { id: no, action: deny, group: g, priority: 9 }\n- { id: b, path: /a, when: { users: [x] }, bands: [{ capacity: 1, refill: 1s }] }\n", nil},
		"denied by the leader": {"- { id: no, action: deny, group: g, priority: 9 }\n- { id: b, path: /b, " + limit, []string{`unreachable rules[1]: rule "b" applies to no request: rule "no" denies all of them`}},
		"denied in shadow":     {"- { id: no, action: deny, mode: shadow, priority: 9 }\n- { id: b, path: /b, " + limit, nil},
		"disabled":             {"- { id: no, action: deny, enabled: false, priority: 9 }\n- { id: b, path: /b, " + limit, nil},
		"allowed deny": {
			"- { id: yes, action: allow, priority: 9, path: /a/** }\n- { id: no, action: deny, path: /a/b }\n",
			[]string{`unreachable rules[1]: rule "no" applies to no request: rule "yes" allows all of them`},
		},
		"group": {
			"- { id: all, group: plan, priority: 9, limitScope: IP, " + limit + "- { id: vip, group: plan, limitScope: IP, when: { attributes: { tier: [vip] } }, bands: [{ capacity: 99, refill: 1s }] }\n",
			[]string{`unreachable rules[1]: rule "vip" applies to no request: rule "all" of the same group matches all of them and comes first`},
		},
		"group in order":   {"- { id: all, group: plan, limitScope: IP, " + limit + "- { id: vip, group: plan, priority: 9, limitScope: IP, when: { attributes: { tier: [vip] } }, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"group and shadow": {"- { id: all, group: plan, mode: shadow, priority: 9, limitScope: IP, " + limit + "- { id: vip, group: plan, limitScope: IP, bands: [{ capacity: 5, refill: 1s }] }\n", nil},
		"excluded": {
			"- { id: a, path: /a/b, when: { excludePaths: [/a/**] }, " + limit,
			[]string{`unreachable rules[0].when.excludePaths: rule "a" applies to no request: excludePaths has all of its paths`},
		},
		"exempted": {
			"- { id: a, path: /a/**, method: GET, limitScope: IP, " + limit + "- { id: b, path: /b, methods: [GET, HEAD], limitScope: USER_ID, " + limit + "- { id: yes, action: allow, priority: 90, method: GET }\n- { id: c, path: /c, " + limit,
			[]string{`exempted rules[2].action: rule "yes" exempts all requests of the limit of rule "a", "b"`},
		},
		"reached first": {
			"- { id: a, path: /api/**, limitScope: USER_ID, " + limit + "- { id: b, path: /api/x, limitScope: USER_ID, bands: [{ capacity: 1200, refill: 1m }] }\n",
			[]string{`reached-first rules[1].bands: rule "b" rejects no request: the limit of rule "a", which applies to all of them, is always reached first`},
		},
		"reached first by all": {
			"- { id: a, " + limit + "- { id: b, limitScope: IP, bands: [{ capacity: 10, refill: 1s }, { label: day, kind: quota, capacity: 2000000, period: day }] }\n",
			[]string{`reached-first rules[1].bands: rule "b" rejects no request: the limit of rule "a", which applies to all of them, is always reached first`,
				`reached-first rules[1].bands[1]: rule "b" never reaches its limit day: 10-per-1s is always reached first`},
		},
		"reached at another time":    {"- { id: a, limitScope: IP, " + limit + "- { id: b, limitScope: IP, path: /x, bands: [{ capacity: 100, refill: 1m }] }\n", nil},
		"reached by others":          {"- { id: a, limitScope: IP, " + limit + "- { id: b, limitScope: USER_ID, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"reached in another measure": {"- { id: a, cost: tokens, " + limit + "- { id: b, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"reached in a group":         {"- { id: vip, group: g, priority: 9, when: { users: [x] }, " + limit + "- { id: a, group: g, priority: 5, " + limit + "- { id: b, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"reached, if not exempt":     {"- { id: b, priority: 9, path: /x, bands: [{ capacity: 99, refill: 1s }] }\n- { id: yes, action: allow, priority: 5, when: { users: [x] } }\n- { id: a, " + limit, nil},
		"reached with a warning":     {"- { id: a, limitScope: IP, " + limit + "- { id: b, limitScope: IP, bands: [{ kind: sliding-window, capacity: 9000, period: 1m, warnAt: [80%] }] }\n", nil},
		"reached while away":         {"- { id: a, onFailure: open, " + limit + "- { id: b, onFailure: closed, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"reached, and refused":       {"- { id: a, " + limit + "- { id: b, limitScope: USER_ID, onMissingIdentity: refuse, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"reached, and in debt":       {"- { id: a, overdraft: true, " + limit + "- { id: b, bands: [{ capacity: 99, refill: 1s }] }\n", nil},
		"bands": {
			"- { id: a, bands: [{ capacity: 100, refill: 1s }, { capacity: 10000, refill: 1m }] }\n",
			[]string{`reached-first rules[0].bands[1]: rule "a" never reaches its limit 10000-per-1m: 100-per-1s is always reached first`},
		},
		"bands that differ": {"- { id: a, bands: [{ capacity: 100, refill: 1s }, { capacity: 1000, refill: 1m }] }\n", nil},
		"mixed group": {
			"- { id: all, group: plan, " + limit + "- { id: vip, group: plan, priority: 9, cost: tokens, when: { users: [x] }, " + limit,
			[]string{`mixed-group rules[1].cost: rule "vip" counts tokens and rule "all" of the same group counts requests: of requests that match both, requests are not limited`},
		},
		"mixed scopes": {"- { id: all, group: plan, limitScope: IP, " + limit + "- { id: vip, group: plan, limitScope: USER_ID, priority: 9, when: { users: [x] }, " + limit, nil},
		"no default": {
			"- { id: basic, limitScope: USER_ID, when: { attributes: { tier: [basic] } }, " + limit + "- { id: vip, limitScope: USER_ID, when: { attributes: { tier: [vip] } }, bands: [{ capacity: 99, refill: 1s }] }\n- { id: health, action: allow, path: /health, when: { ips: [10.0.0.0/8] } }\n",
			[]string{`no-default rules[0].when.attributes.tier: rule "basic" and rule "vip" limit two values of the attribute "tier", and no rule applies to the others: add a rule without this condition`},
		},
		"a default":       {"- { id: basic, limitScope: USER_ID, when: { attributes: { tier: [basic] } }, " + limit + "- { id: vip, limitScope: USER_ID, when: { attributes: { tier: [vip] } }, bands: [{ capacity: 99, refill: 1s }] }\n- { id: rest, limitScope: IP, bands: [{ capacity: 2, refill: 1s }] }\n", nil},
		"another default": {"- { id: basic, limitScope: USER_ID, when: { attributes: { tier: [basic] } }, " + limit + "- { id: vip, limitScope: USER_ID, when: { attributes: { tier: [vip] } }, bands: [{ capacity: 99, refill: 1s }] }\n- { id: rest, action: deny, priority: -1 }\n", nil},
		"one value":       {"- { id: basic, when: { attributes: { tier: [basic] } }, " + limit + "- { id: other, path: /x, when: { attributes: { tier: [vip] } }, " + limit, nil},
		"method": {
			"- { id: a, methods: [get, GETT, FOO], " + limit,
			[]string{`unknown-method rules[0].methods[1]: rule "a" has the HTTP method "GETT", which is not registered: is it GET?`},
		},
		"methods": {"- { id: a, methods: [get, PROPFIND, PURGE, \"*\"], " + limit, nil},
		"names": {
			"- { id: a, when: { attributes: { tier: [x] }, headers: { X-Client-Plan: [y] } }, " + limit + "- { id: b, limitScope: CUSTOM, compositeKeyFields: [\"attr:tenant\"], path: /b, " + limit +
				"- { id: c, when: { attributes: { teir: [x] }, headers: { x-clint-plan: [z] } }, path: /c, bands: [{ capacity: 9, refill: 1m }] }\n- { id: d, limitScope: CUSTOM, compositeKeyFields: [\"attr:tennant\"], path: /d, " + limit,
			[]string{
				`similar-name rules[2].when.attributes.teir: rule "c" has the attribute "teir", and rule "a" has "tier": is one misspelled?`,
				`similar-name rules[2].when.headers.x-clint-plan: rule "c" has the header "X-Clint-Plan", and rule "a" has "X-Client-Plan": is one misspelled?`,
				`similar-name rules[3].compositeKeyFields[0]: rule "d" has the attribute "tennant", and rule "b" has "tenant": is one misspelled?`,
			},
		},
		"names that differ": {
			"- { id: a, path: /a, when: { attributes: { user-id: [x], zone1: [x], state: [x], tenant: [x], mode: [x], x-plan-a: [x] } }, " + limit +
				"- { id: b, path: /b, when: { attributes: { user-ip: [x], zone2: [x], stage: [x], tenants: [x], model: [x], x-plan-b: [x] } }, " + limit, nil,
		},
		"names in one rule": {"- { id: a, when: { attributes: { tier: [x], teir: [x] } }, " + limit, nil},
		"network": {
			"- { id: a, when: { users: [10.0.0.0/8], headers: { X-Forwarded-For: [a, 10.1.0.0/16] }, attributes: { client_ip: [\"fd00::/8\"] }, descriptor: [{ key: remote_address, value: 10.0.0.0/8 }] }, " + limit,
			[]string{
				`network-as-text rules[0].when.users[0]: rule "a" compares the network "10.0.0.0/8" as text, which no address equals: use when.ips`,
				`network-as-text rules[0].when.headers.X-Forwarded-For[1]: rule "a" compares the network "10.1.0.0/16" as text, which no address equals: use when.ips`,
				`network-as-text rules[0].when.attributes.client_ip[0]: rule "a" compares the network "fd00::/8" as text, which no address equals: use when.ips`,
				`network-as-text rules[0].when.descriptor[0].value: rule "a" compares the network "10.0.0.0/8" as text, which no address equals: use when.ips`,
			},
		},
		"networks": {"- { id: a, when: { users: [a/b], attributes: { subnet: [10.0.0.0/8] }, descriptor: [{ key: masked_remote_address, value: 10.0.0.0/8 }] }, " + limit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := warnings(t, c.rules); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// The number of warnings and the work are bounded, whatever a document has.
func TestSet_Warnings_Bounded_NoRace(t *testing.T) {
	limit := []rules.Band{rules.PerSecond(1)}
	many := func(rule func(i int) rules.Rule) []rules.Rule {
		list := make([]rules.Rule, rules.MaxRules)
		for i := range list {
			list[i] = rule(i)
			list[i].ID = "r" + strconv.Itoa(i)
		}
		return list
	}
	values := func(n int, prefix string) (list []string) {
		for i := range n {
			list = append(list, prefix+strconv.Itoa(i))
		}
		return list
	}
	named := values(100, "n")
	for name, list := range map[string][]rules.Rule{
		"the same": many(func(int) rules.Rule { return rules.Rule{Bands: limit} }),
		"methods":  many(func(i int) rules.Rule { return rules.Rule{Methods: []string{"M" + strconv.Itoa(i)}, Bands: limit} }),
		"the same conditions": many(func(i int) rules.Rule {
			return rules.Rule{When: rules.When{Users: []string{"x"}, Hosts: []string{"h" + strconv.Itoa(i)}}, Methods: []string{"M" + strconv.Itoa(i)}, Bands: limit}
		}),
		"stars": many(func(i int) rules.Rule {
			pattern := ""
			for bit := range 14 {
				pattern += []string{"/a", "/*"}[i>>bit&1]
			}
			return rules.Rule{Paths: []string{pattern}, Bands: limit}
		}),
		"plans": many(func(i int) rules.Rule {
			return rules.Rule{Paths: []string{"/" + strconv.Itoa(i/2)}, When: rules.When{Attributes: map[string][]string{"n" + strconv.Itoa(i/2): {strconv.Itoa(i)}}}, Bands: limit}
		}),
		"names": many(func(i int) rules.Rule {
			return rules.Rule{When: rules.When{Attributes: map[string][]string{"name" + strings.Repeat("a", i%50) + strings.Repeat("b", i/200): {"x"}}}, Bands: limit}
		}),
		"many lists": many(func(i int) rules.Rule {
			return rules.Rule{Paths: nestedPaths(i), Methods: []string{"M" + strconv.Itoa(i)}, When: rules.When{ExcludePaths: []string{"/" + strconv.Itoa(i) + "/**"}}, Bands: limit}
		}),
		"long lists": func() (list []rules.Rule) {
			users := values(10_000, "u")
			for i := range 190 {
				list = append(list, rules.Rule{ID: "r" + strconv.Itoa(i), Methods: []string{"M" + strconv.Itoa(i)}, When: rules.When{Users: users, Attributes: map[string][]string{"a": named}}, Bands: limit})
			}
			return list
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			set, err := rules.NewSet("s", list...)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			found := set.Warnings()
			t.Logf("%d warnings and %d more, %d not compared, in %v", len(found.List), found.More, found.Uncompared, time.Since(began))
			if name == "the same" && (found.More == 0 || found.Uncompared == 0) {
				t.Errorf("%d more, and %d not compared", found.More, found.Uncompared)
			}
			if len(found.List) > rules.MaxWarnings || found.More > 0 && len(found.List) != rules.MaxWarnings {
				t.Errorf("%d warnings, and %d more", len(found.List), found.More)
			}
		})
	}
}

func nestedPaths(i int) (paths []string) {
	for j := range 20 {
		paths = append(paths, "/**/"+strconv.Itoa(i%7)+"/"+strconv.Itoa(j))
	}
	return paths
}
