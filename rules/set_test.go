package rules_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// specDocument is the rule of the specification, literally.
const specDocument = `{"id": "api-limits", "rules": [
	{ "_id": "rule-1", "ruleSetId": "api-limits", "path": "/api/users/*", "method": "GET",
	  "limitScope": "IP", "compositeKeyFields": null,
	  "bands": [ { "label": "per-second", "capacity": 100, "refillTokens": 100, "refillSeconds": 1 },
	             { "label": "per-minute", "capacity": 1000, "refillTokens": 1000, "refillSeconds": 60 } ],
	  "priority": 10, "enabled": true, "onLimitExceed": "REJECT",
	  "attributes": { "tenant": "enterprise", "tier": "premium" },
	  "createdAt": "2024-01-01T00:00:00Z", "updatedAt": "2024-01-01T00:00:00Z" }]}`

func rulesOf(s *rules.Set) []rules.Rule { return slices.Collect(s.Rules()) }

func TestParse_SpecDocument(t *testing.T) {
	set, err := rules.Parse([]byte(specDocument))
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	want := rules.Rule{
		ID: "rule-1", RuleSetID: "api-limits", Paths: []string{"/api/users/*"}, Methods: []string{"GET"},
		Scope: rules.ScopeIP, Priority: 10, OnLimitExceed: rules.Reject,
		Bands: []rules.Band{
			{Label: "per-second", Capacity: 100, RefillTokens: 100, Refill: time.Second},
			{Label: "per-minute", Capacity: 1000, RefillTokens: 1000, Refill: time.Minute},
		},
		Attributes: map[string]any{"tenant": "enterprise", "tier": "premium"},
		CreatedAt:  created, UpdatedAt: created,
	}
	if got := rulesOf(set)[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

func TestParse_Spellings(t *testing.T) {
	rule := func(fields string) string {
		return `{"id": "s", "rules": [{"id": "r", ` + fields + `}]}`
	}
	for _, c := range []struct{ name, one, other string }{
		{"PER_IP is IP", `"limitScope": "PER_IP", "bands": [{"capacity": 1, "refillSeconds": 1}]`, `"limitScope": "IP", "bands": [{"capacity": 1, "refillSeconds": 1}]`},
		{"PER_USER is USER_ID", `"limitScope": "PER_USER", "bands": [{"capacity": 1, "refillSeconds": 1}]`, `"limitScope": "USER_ID", "bands": [{"capacity": 1, "refillSeconds": 1}]`},
		{"PER_API_KEY is API_KEY", `"limitScope": "PER_API_KEY", "bands": [{"capacity": 1, "refillSeconds": 1}]`, `"limitScope": "API_KEY", "bands": [{"capacity": 1, "refillSeconds": 1}]`},
		{"no scope is GLOBAL", `"bands": [{"capacity": 1, "refillSeconds": 1}]`, `"limitScope": "GLOBAL", "bands": [{"capacity": 1, "refillSeconds": 1}]`},
		{"windowSeconds is the period of the whole capacity", `"bands": [{"capacity": 7, "windowSeconds": 60}]`, `"bands": [{"capacity": 7, "refillSeconds": 60}]`},
		{"numbers may be doubles", `"priority": 1e1, "bands": [{"capacity": 100.0, "refillTokens": 1e2, "refillSeconds": 60.0}]`, `"priority": 10, "bands": [{"capacity": 100, "refillTokens": 100, "refillSeconds": 60}]`},
		{"refill in words", `"bands": [{"capacity": 1, "refill": "1500ms"}]`, `"bands": [{"capacity": 1, "refillSeconds": 1.5}]`},
		{"refill in days", `"bands": [{"capacity": 1, "refill": "7d"}]`, `"bands": [{"capacity": 1, "refillSeconds": 604800}]`},
		{"one path is a list of one", `"path": "/a", "method": "GET", "bands": [{"capacity": 1, "refill": "1s"}]`, `"paths": ["/a"], "methods": ["GET"], "bands": [{"capacity": 1, "refill": "1s"}]`},
		{"an address is a network", `"when": {"ips": ["10.0.0.1", "::1"]}, "bands": [{"capacity": 1, "refill": "1s"}]`, `"when": {"ips": ["10.0.0.1/32", "::1/128"]}, "bands": [{"capacity": 1, "refill": "1s"}]`},
		{"one header value is a list of one", `"when": {"headers": {"X-A": "b"}}, "bands": [{"capacity": 1, "refill": "1s"}]`, `"when": {"headers": {"X-A": ["b"]}}, "bands": [{"capacity": 1, "refill": "1s"}]`},
		{"null is absent", `"group": null, "when": null, "enabled": null, "bands": [{"capacity": 1, "refill": "1s", "label": null}]`, `"bands": [{"capacity": 1, "refill": "1s"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, err := rules.Parse([]byte(rule(c.one)))
			if err != nil {
				t.Fatal(err)
			}
			other, err := rules.Parse([]byte(rule(c.other)))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := rulesOf(one), rulesOf(other); !reflect.DeepEqual(got, want) {
				t.Errorf("read\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

// A rule set is the same after it was written as JSON and read.
func TestSet_JSON(t *testing.T) {
	set, err := rules.NewSet("everything", rules.Rule{
		ID: "all", Paths: []string{"/a/*", "/b/**"}, Methods: []string{"GET", "POST"}, Scope: rules.ScopeComposite,
		KeyFields: []string{"ip", "header:X-Tenant", "attr:plan", "descriptor", "descriptor:a"}, Priority: -3, Group: "g", Action: rules.ActionLimit,
		Disabled: true, OnLimitExceed: rules.WaitForRefill, Mode: rules.ModeShadow, OnFailure: rules.FailClosed,
		OnMissingIdentity: rules.MissingRefuse,
		When: rules.When{
			Hosts: []string{"api.example.com", "*.example.org"}, ExcludePaths: []string{"/a/health"},
			Headers: map[string][]string{"X-A": {"1", "2"}}, Attributes: map[string][]string{"tier": {"*"}},
			IPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Users: []string{"u"}, APIKeys: []string{"k"},
			Descriptor: []rules.DescriptorMatch{{Key: "a"}, {Key: "b", Value: "c"}, {Key: "d", Value: "e*", Except: []string{"ef", "eg*"}}},
		},
		Bands: []rules.Band{{Label: "x", Capacity: 5, RefillTokens: 2, Refill: 1500 * time.Millisecond, Kind: rules.TokenBucket}, {Capacity: 9, RefillTokens: 9, Refill: 48 * time.Hour},
			{Kind: rules.Quota, Capacity: 9, Period: "week", Timezone: "Europe/Berlin"}, {Kind: rules.SlidingWindow, Label: "w", Capacity: 9, Refill: 1600 * time.Microsecond},
			{Kind: rules.Concurrency, Label: "c", Capacity: 100_000, Hold: 1500 * time.Millisecond}},
		Attributes: map[string]any{"n": json.Number("1"), "list": []any{"a"}, "tree": map[string]any{"b": true}},
		CreatedAt:  time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC),
	}, rules.Rule{ID: "deny", Action: rules.ActionDeny, Priority: 9})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	again, err := rules.Parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if got, want := rulesOf(again), rulesOf(set); !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	second, err := json.Marshal(again)
	if err != nil || string(second) != string(data) {
		t.Errorf("written again\n%s\nfirst\n%s (%v)", second, data, err)
	}
}

// Every problem is reported with its path.
func TestParse_Problems(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rules.Parse(data)
			var invalid *rules.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want a ValidationError", err)
			}
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil || err.Error()+"\n" != string(want) {
				t.Errorf("says\n%s\nwant\n%s (%v)", err, want, readErr)
			}
		})
	}
}

func TestSet_Immutable(t *testing.T) {
	rule := rules.Rule{
		ID: "r", Paths: []string{"/a"}, Bands: []rules.Band{rules.PerSecond(1)},
		When:       rules.When{Headers: map[string][]string{"X": {"1"}}},
		Attributes: map[string]any{"tree": map[string]any{"a": 1}},
	}
	set, err := rules.NewSet("s", rule)
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(rulesOf(set))
	change := func(r rules.Rule) {
		r.Paths[0] = "/b"
		r.Bands[0].Capacity = 99
		r.When.Headers["X"][0] = "2"
		r.Attributes["tree"].(map[string]any)["a"] = 2
	}
	change(rule)
	change(rulesOf(set)[0])
	if after := fmt.Sprint(rulesOf(set)); after != before {
		t.Errorf("now\n%s\nwas\n%s", after, before)
	}
}

// Rules are listed in the order they are evaluated.
func TestSet_Order(t *testing.T) {
	rule := func(id string, priority int) rules.Rule {
		return rules.Rule{ID: id, Priority: priority, Bands: []rules.Band{rules.PerSecond(1)}}
	}
	set, err := rules.NewSet("s", rule("b", 1), rule("c", 5), rule("a", 1), rule("d", -1))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for r := range set.Rules() {
		ids = append(ids, r.ID)
	}
	if want := []string{"c", "a", "b", "d"}; !slices.Equal(ids, want) {
		t.Errorf("order %v, want %v: higher priority first, ties by id", ids, want)
	}
}

func TestBand_Names(t *testing.T) {
	for want, b := range map[string]rules.Band{
		"100-per-1m":   rules.PerMinute(100),
		"5-per-1d":     rules.PerDay(5),
		"9-per-month":  {Kind: rules.Quota, Capacity: 9, Period: "month"},
		"9-at-once":    {Kind: rules.Concurrency, Capacity: 9, Hold: time.Minute},
		"9-per-1m":     {Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Minute},
		"2-per-1500ms": {Capacity: 9, RefillTokens: 2, Refill: 1500 * time.Millisecond},
		"burst":        {Label: "burst", Capacity: 1, Refill: time.Second},
	} {
		if got := b.Name(); got != want {
			t.Errorf("%+v is called %s, want %s", b, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(specDocument))
	files, _ := filepath.Glob("testdata/invalid/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := rules.Parse(data)
		if err != nil {
			return
		}
		if _, err := fluxgate.Compile(set); err != nil {
			t.Fatalf("accepted what does not compile: %v", err)
		}
		// An accepted rule set is the same after it was written and read.
		written, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		again, err := rules.Parse(written)
		if err != nil {
			t.Fatalf("refused what it wrote: %v\n%s", err, written)
		}
		rewritten, err := json.Marshal(again)
		if err != nil || string(rewritten) != string(written) {
			t.Fatalf("wrote\n%s\nand then\n%s (%v)", written, rewritten, err)
		}
	})
}

// Values that a program can set and JSON has no type for are the same after a
// rule set was written and read.
func TestSet_RoundTrip(t *testing.T) {
	zoned := time.Date(2026, 5, 6, 7, 8, 9, 0, time.FixedZone("elsewhere", 3600))
	r := rules.Rule{ID: "r", Bands: []rules.Band{rules.PerHour(5)}}
	r.CreatedAt, r.UpdatedAt = zoned, zoned
	r.Attributes = map[string]any{"n": 1.5, "list": []any{"a", map[string]any{"b": nil}}, "big": int64(1 << 60)}
	set := fluxgate.Must(rules.NewSet("api", r))
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	again, err := rules.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := json.Marshal(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("%v\n%s\n%s", err, text, second)
	}
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	for name, bad := range map[string]rules.Rule{
		"attributes: a struct":    {Attributes: map[string]any{"s": struct{ A int }{1}}},
		"attributes: raw JSON":    {Attributes: map[string]any{"s": json.RawMessage(`{}`)}},
		"attributes: not a text":  {Attributes: map[string]any{"s": "\xff"}},
		"attributes: not a name":  {Attributes: map[string]any{"\xff": 1}},
		"attributes: not a value": {Attributes: map[string]any{"s": math.NaN()}},
		"attributes: too deep":    {Attributes: map[string]any{"s": deep}},
		"users: not a text":       {When: rules.When{Users: []string{"\xff"}}},
		"headers: not a text":     {When: rules.When{Headers: map[string][]string{"X": {"\xff"}}}},
	} {
		bad.ID, bad.Bands = "r", r.Bands
		if _, err := rules.NewSet("set", bad); err == nil || !strings.Contains(err.Error(), strings.SplitN(name, ":", 2)[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A problem hides no other one: not one of a field whose name begins with its
// own, and not one of the band that it is in.
func TestParse_ProblemsSideBySide(t *testing.T) {
	for _, c := range []struct {
		name, band string
		want       []string
	}{
		{"refill and refillTokens", `{"capacity": 1, "refill": "soon", "refillTokens": -1}`, []string{
			`rules[0].bands[0].refill: must be a period such as 100ms, not "soon"`, `rules[0].bands[0].refillTokens: must be at least 1`,
		}},
		{"a field and its band", `{"capacity": 1, "refill": "1us", "labels": "x"}`, []string{
			`rules[0].bands[0].labels: is not a known field: did you mean label?`, `rules[0].bands[0]: period must be between 1ms and 366d, not 1us`,
		}},
		{"one value under another name", `{"capacity": 1, "refillSeconds": "soon"}`, []string{
			`rules[0].bands[0].refillSeconds: must be a number of seconds above 0, exact to the microsecond`,
		}},
		{"one value under its old name", `{"capacity": 1, "windowSeconds": "soon"}`, []string{
			`rules[0].bands[0].windowSeconds: must be a number of seconds above 0, exact to the microsecond`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Parse([]byte(`{"id": "s", "rules": [{"id": "r", "bands": [` + c.band + `]}]}`))
			var invalid *rules.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want a ValidationError", err)
			}
			var got []string
			for _, p := range invalid.Problems {
				got = append(got, p.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
