package rulestest

import (
	"encoding/json"
	"math"
	"net/netip"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// full returns a rule set with every field set once, to values that any format can
// represent.
func (f *fixture) full(id string) *rules.Set {
	f.Helper()
	return f.priced(f.setOf(id, fullRules(id)...))
}

// costTables have every field set. A weight of 0 is not the default.
var costTables = rules.CostTables{
	"usd": {
		"gpt-4.1":      {Input: 2_500_000, CachedInput: 1_250_000, Output: 10_000_000, Reasoning: 12_000_000, MaxOutputTokens: 4_000},
		"$org/模型:free": {},
		"*":            {Input: 1_000_000_000_000_000, CachedInput: 0, Output: 20_000_000, Reasoning: 20_000_000},
	},
	"tokens": {"*": {Input: 1_000_000, CachedInput: 1_000_000, Output: 1_000_000, Reasoning: 0}},
}

// priced returns a rule set with cost tables.
func (f *fixture) priced(set *rules.Set) *rules.Set {
	f.Helper()
	set, err := set.WithCostTables(costTables)
	if err != nil {
		f.Fatal(err)
	}
	return set
}

func fullRules(id string) []rules.Rule {
	return []rules.Rule{{
		ID: id + ".a", RuleSetID: id,
		Paths: []string{"/api/users/*", "/api/orders/**"}, IgnoreCase: true, Methods: []string{"GET", "POST"},
		When: rules.When{
			Hosts: []string{"api.example.com", "*.example.org"}, ExcludePaths: []string{"/api/users/me"},
			Headers:    map[string][]string{"X-Plan": {"gold", "grün"}, "X-Any": {"*"}},
			Attributes: map[string][]string{"tier": {"premium"}},
			IPs:        []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
			Users:      []string{"ada", "日本語"}, APIKeys: []string{"sha256:" + digest},
			Descriptor: []rules.DescriptorMatch{{Key: "route", Value: "lo*", Except: []string{"login", "lost*"}}, {Key: "クライアント"}, {Key: "any", Value: "*"}},
		},
		Scope: rules.ScopeComposite, KeyFields: []string{"ip", "header:X-Tenant", "descriptor", "descriptor:route"}, Cost: "usd",
		Bands: []rules.Band{
			{Kind: rules.TokenBucket, Label: "burst", Capacity: 20, RefillTokens: 7, Refill: 100 * time.Millisecond},
			{Label: "per-day", Capacity: 1_000_000, Refill: 24 * time.Hour},
			{Kind: rules.Quota, Label: "plan", Capacity: 10_000, Period: "month", Timezone: "Asia/Kathmandu", WarnAt: rules.Percents{1, 80, 100}},
			{Kind: rules.Quota, Capacity: 500_000_000_000, Period: "year"},
			{Kind: rules.SlidingWindow, Label: "any-minute", Capacity: 100, Refill: time.Minute},
			{Kind: rules.Concurrency, Label: "slots", Capacity: 20, Hold: 30 * time.Second},
		},
		Priority: 10, Group: "plans", Action: rules.ActionLimit, Until: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC),
		OnLimitExceed: rules.WaitForRefill, Mode: rules.ModeShadow,
		OnFailure: rules.FailClosed, Consistency: rules.ConsistencyStrict, OnMissingIdentity: rules.MissingRefuse,
		Attributes: map[string]any{
			"owner": "team <a> & \"b\"", "count": 9_007_199_254_740_991, "share": 0.25, "on": true, "none": nil,
			"nested": map[string]any{"list": []any{"ü", -1, []any{}, map[string]any{"deep": "🙂"}}, "empty": map[string]any{}},
		},
		CreatedAt: time.Date(2024, 2, 29, 23, 59, 59, 123_000_000, time.UTC),
		UpdatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}, {
		ID: id + ".b", Paths: []string{"/one"}, Methods: []string{"DELETE"}, Priority: -3, Disabled: true,
		Scope: rules.ScopeCustom, KeyFields: []string{"attr:tenant"}, Bands: []rules.Band{rules.PerSecond(1)}, Overdraft: true,
	}, {
		ID: id + ".c", Action: rules.ActionDeny, Replaces: []string{id + ".a", "gone"},
	}, {
		ID: id + ".d", Mode: rules.ModeAlternative, CountRefused: true, Bands: []rules.Band{{Kind: rules.Quota, Capacity: 7, Period: "hour"}},
	}}
}

const digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

// awkward are attributes that JSON can represent and that other formats may
// change.
var awkward = map[string]map[string]any{
	"numbers": {
		"beyond a double": json.Number("9007199254740993"), "largest": int64(math.MaxInt64), "unsigned": uint64(math.MaxUint64),
		"tenth": 0.1, "tiny": 5e-324, "huge": 1e300, "whole": 3.0, "negative zero": json.Number("-0"),
		"trailing zero": json.Number("1.50"), "exponent": json.Number("1E+2"), "beyond range": json.Number("1e999"),
		"digits": json.Number("123456789012345678901234567890.000000000000000000000000000001"),
	},
	"texts": {
		"controls": "\x00\x01\t\r\n\x1f\x7f", "separators": "\u2028\u2029", "html": "</script>&amp;", "quotes": `"\'` + "`",
		"emoji": "👩‍👩‍👧 e\u0301 é", "right to left": "שלום", "not a character": "\ufffd\ufeff", "number": "00123", "date": "2024-01-01T00:00:00Z",
	},
	"names": {"": 1, "a.b": 2, "$set": 3, "ключ": 4, "a b": 5, "__proto__": 6, "_id": 7},
	"trees": {
		"lists": []any{[]any{}, []any{nil}, []any{[]any{[]any{1, "2", false}}}}, "objects": map[string]any{"": map[string]any{}, "z": nil, "a": 1},
		"null": nil, "no": false,
	},
}
