package rules_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]rules.Times{"1": 1_000, "0.001": 1, "2.5": 2_500, "10.25": 10_250, "100": 100_000} {
		got, err := rules.ParseTimes(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d, %s, %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "0", "0.000", "-1", "1.", ".5", "1.2345", "1e3", "NaN", "+1", "1.-5", "99999999999999999999"} {
		if got, err := rules.ParseTimes(text); err == nil {
			t.Errorf("%s is %d", text, got)
		}
	}
}

func TestOverridden(t *testing.T) {
	rule := rules.Rule{ID: "a", Bands: []rules.Band{
		{Capacity: 10, RefillTokens: 3, Refill: time.Second}, {Kind: rules.Quota, Capacity: 7, Period: "day"},
		{Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute}, {Kind: rules.SlidingWindow, Capacity: 1_001, Refill: time.Hour},
	}}
	numbers := func(times rules.Times) (all []int64) {
		bands, err := rule.Overridden(times, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range bands {
			all = append(all, b.Capacity, b.RefillTokens)
			if b.Refill != rule.Bands[i].Refill || b.Kind != rule.Bands[i].Kind || b.Hold != rule.Bands[i].Hold {
				t.Errorf("band %d is %+v", i, b)
			}
		}
		return all
	}
	for times, want := range map[rules.Times][]int64{
		2_500: {25, 7, 17, 0, 12, 0, 2_502, 0},
		1:     {1, 1, 1, 0, 1, 0, 1, 0},
	} {
		if got := numbers(times); !slices.Equal(got, want) {
			t.Errorf("%s times: %v, want %v", times, got, want)
		}
	}
	rule.Bands = rule.Bands[3:]
	if _, err := rule.Overridden(math.MaxInt64, nil); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("an overflow is %v", err)
	}
}

// Bands in money fit a rule that counts its currency. They are integers everywhere else.
func TestOverridden_Money(t *testing.T) {
	bands, err := rules.ParseBands(`[{"label": "day", "capacity": "12.40 USD", "refillTokens": "1 usd", "refill": "24h"}]`)
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.Rule{ID: "a", Cost: "usd", Bands: []rules.Band{{Label: "day", Capacity: 1, Refill: 24 * time.Hour}}}
	got, err := rule.Overridden(0, bands)
	if want := (rules.Band{Label: "day", Capacity: 12_400_000, RefillTokens: 1_000_000, Refill: 24 * time.Hour, Kind: rules.TokenBucket}); err != nil || got[0] != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	rule.Cost = "eur"
	const want = `band 0 is in USD, but the rule counts "eur"`
	if _, err := rule.Overridden(0, bands); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	text, err := json.Marshal(rules.Override{RuleSetID: "api", RuleID: "a", Bands: bands})
	if err != nil || !strings.Contains(string(text), `"capacity":12400000,"refillTokens":1000000`) {
		t.Errorf("%s, %v", text, err)
	}
	var o rules.Override
	const refused = "bands[0].capacity: must be a whole number"
	err = json.Unmarshal([]byte(`{"ruleSetId": "api", "ruleId": "a", "bands": [{"capacity": "12.40 USD", "refill": "24h"}]}`), &o)
	if err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("%v, want %s", err, refused)
	}
	for text, want := range map[string]string{
		`[{"capacity": "12.345 USD", "refill": "24h"}]`:                     `bands[0].capacity: must have at most 2 decimals in USD, not "12.345 USD"`,
		`[{"capacity": "5 USD", "refillTokens": "5 EUR", "refill": "24h"}]`: `bands[0].refillTokens: is in EUR, but the rule counts "USD"`,
	} {
		if _, err := rules.ParseBands(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// An override survives JSON, and its API key is a digest in it.
func TestOverride_JSON(t *testing.T) {
	o := rules.Override{
		RuleSetID: "api", RuleID: "standard", Identity: map[string]string{"apiKey": "secret", "userId": "a\x00b|c"}, Times: 1_500,
		Until: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Reason: "launch", Author: "ada", Revision: 7,
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), `"times":1.5`) {
		t.Fatalf("%s %v", text, err)
	}
	var doc map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	got, err := rules.DecodeOverride(doc)
	again, _ := json.Marshal(got)
	if err != nil || string(again) != string(text) || got.ID() != o.ID() {
		t.Errorf("%s became %s: %v", text, again, err)
	}
	doc["identity"] = map[string]any{"apiKey": 12345}
	if _, err := rules.DecodeOverride(doc); err == nil || strings.Contains(err.Error(), "12345") {
		t.Errorf("a number as an API key is %v", err)
	}
}

// The parts of an identity cannot be mistaken for each other.
func TestOverride_ID(t *testing.T) {
	seen := map[string]int{}
	for i, o := range []rules.Override{
		{RuleID: "a"}, {RuleID: "b"}, {RuleID: "a", Identity: map[string]string{"x": "yz"}}, {RuleID: "a", Identity: map[string]string{"xy": "z"}},
		{RuleID: "a", Identity: map[string]string{"x": "1:y"}}, {RuleID: "a", Identity: map[string]string{"x": "y", "z": ""}},
		{RuleID: "a", Identity: map[string]string{"x": "e\u0301"}}, {RuleID: "a", Identity: map[string]string{"x": "\u00e9"}},
	} {
		if first, again := seen[o.ID()]; again {
			t.Errorf("overrides %d and %d have the same id", first, i)
		}
		seen[o.ID()] = i
	}
}
