package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/fluxgate/fluxgate/rules"
)

// sample returns a diff with every kind of change.
func sample(t *testing.T) []rules.RuleDiff {
	t.Helper()
	perUser := rules.Rule{
		ID: "per-user", Paths: []string{"/api/**"}, Scope: rules.ScopeUser, Priority: 5, OnFailure: rules.FailOpen,
		When: rules.When{Users: numbered("user-", 0, 100), Attributes: map[string][]string{"tier": {"basic"}}},
		Bands: []rules.Band{
			{Label: "burst", Capacity: 20, RefillTokens: 10, Refill: time.Second}, {Label: "hourly", Capacity: 2, Refill: time.Hour},
		},
		Attributes: map[string]any{"owner": "team <a>", "ticket": 4711},
	}
	same := rules.Rule{ID: "same", Action: rules.ActionAllow, Priority: 9}
	old := rules.Rule{ID: "old", Bands: []rules.Band{rules.PerMinute(1)}}
	before := withTables(t, newSet(t, perUser, same, old), rules.CostTables{"usd": {"gpt-4o": weights(2_500_000, 10_000_000), "*": weights(1, 1)}})

	perUser.When.Users = numbered("user-", 2, 101)
	perUser.When.Attributes = map[string][]string{"tier": {"basic", "trial"}, "user.region": {"*"}}
	perUser.Bands = []rules.Band{
		{Label: "hourly", Capacity: 100, Refill: time.Hour}, {Label: "daily", Capacity: 1_000, Refill: 24 * time.Hour},
	}
	perUser.OnFailure, perUser.Mode, perUser.Disabled = "", rules.ModeShadow, true
	perUser.Attributes = map[string]any{"owner": "team <b>\x1b[31m\u202e", "ticket": 4711}
	premium := rules.Rule{
		ID: "premium", Group: "plan", Priority: 10, Scope: rules.ScopeAPIKey, Paths: []string{"/api/**", "/v2/**"},
		When:  rules.When{APIKeys: []string{"foobar"}, Users: numbered("customer-", 0, 1_000)},
		Bands: []rules.Band{{Label: "minute", Capacity: 1_000, RefillTokens: 500, Refill: 30 * time.Second}},
	}
	return rules.Diff(before, withTables(t, newSet(t, perUser, same, premium), rules.CostTables{"usd": {"gpt-4o": weights(2_000_000, 10_000_000), "gpt-4.1": weights(3, 4), "*": weights(1, 1)}}))
}

// The output is that of the golden file.
func TestWriteDiff_Golden(t *testing.T) {
	var b strings.Builder
	if err := rules.WriteDiff(&b, sample(t), nil); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/diff.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s (%v; UPDATE_GOLDEN=1 writes it)", b.String(), want, err)
	}
}

// Each kind has its color.
func TestWriteDiff_Paint(t *testing.T) {
	var b strings.Builder
	paint := func(kind rules.DiffKind, s string) string { return fmt.Sprintf("<%s>%s</>", kind, s) }
	err := rules.WriteDiff(&b, []rules.RuleDiff{
		{Rule: "a", Change: rules.DiffChanged, Fields: []rules.FieldDiff{
			{Path: "x", Before: json.RawMessage("1"), After: json.RawMessage("2")}, {Path: "y", After: json.RawMessage("3")}, {Path: "z[-]", Before: json.RawMessage("[4]")},
		}},
		{Rule: "b", Change: rules.DiffAdded, Fields: []rules.FieldDiff{{Path: "x", After: json.RawMessage("5")}}},
		{Rule: "c", Change: rules.DiffRemoved, Fields: []rules.FieldDiff{{Path: "x", Before: json.RawMessage("6")}}},
	}, paint)
	const want = `<changed>~ a</>
    x: <removed>1</> → <added>2</>
    y: unset → <added>3</>
    z[-]: <removed>[4]</>
<added>+ b</>
    x: <added>5</>
<removed>- c</>
`
	if err != nil || b.String() != want {
		t.Errorf("it is\n%s\nwant\n%s (%v)", b.String(), want, err)
	}
}

// The output is printable and lines are bounded, whatever the diff contains.
func TestWriteDiff_Printable(t *testing.T) {
	const bad = "\x1b[2J\r\n\x00\x7f\u009b31m\u202e\u200b\U000e0041\xff"
	long, _ := json.Marshal(strings.Repeat("ü", 5_000))
	indented := json.RawMessage("[\n  1,\n  2\n]")
	var b strings.Builder
	err := rules.WriteDiff(&b, []rules.RuleDiff{{Rule: bad, Change: rules.DiffKind(bad), Fields: []rules.FieldDiff{
		{Path: bad, Before: json.RawMessage(bad), After: json.RawMessage(`"` + bad + `"`)},
		{Path: "long", Before: long, After: indented},
		{Path: strings.Repeat("p", 5_000)},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Errorf("it has %d lines: %q", len(lines), b.String())
	}
	for _, line := range lines {
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 || len(line) > 3_000 {
			t.Errorf("a line of %d bytes has %q", len(line), line[max(i, 0):])
		}
	}
	if want := strings.Repeat("ü", 999) + "… and 4002 characters more → [1,2]"; !strings.HasSuffix(lines[2], want) {
		t.Errorf("a long value is %q", lines[2])
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// An error of the writer is returned.
func TestWriteDiff_WriterError(t *testing.T) {
	if err := rules.WriteDiff(brokenWriter{}, sample(t), nil); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
}

// Numbers of rules that count money are shown as rule files have them.
func TestWriteDiff_Money(t *testing.T) {
	budget := func(cost string, capacity, refill int64) *rules.Set {
		band := rules.Band{Label: "day", Capacity: capacity, RefillTokens: refill, Refill: 24 * time.Hour}
		return newSet(t, rules.Rule{ID: "budget", Cost: cost, Bands: []rules.Band{band}})
	}
	for name, test := range map[string]struct {
		before, after *rules.Set
		want          string
	}{
		"one zero too many": {budget("usd", 5_000_000, 10_000), budget("usd", 50_000_000, 10_000), "~ budget\n    bands[day].capacity: \"5 USD\" → \"50 USD\"\n"},
		"less than a cent":  {budget("usd", 5_000_000, 10_000), budget("usd", 5_000_000, 9_999), "~ budget\n    bands[day].refillTokens: \"0.01 USD\" → 9999\n"},
		"tokens":            {budget("tokens", 20_000, 10), budget("tokens", 30_000, 10), "~ budget\n    bands[day].capacity: 20000 → 30000\n"},
		"another currency": {
			budget("usd", 1_000_000, 10_000), budget("jpy", 2_000_000, 10_000), "~ budget\n    cost: \"usd\" → \"jpy\"\n    bands[day].capacity: 1000000 → 2000000\n",
		},
		"an added rule": {
			nil, budget("jpy", 5_000_000, 1_000_000),
			"+ budget\n    cost: \"jpy\"\n    bands[day]: {\"capacity\":\"5 JPY\",\"refill\":\"1d\",\"refillTokens\":\"1 JPY\"}\n",
		},
	} {
		var b strings.Builder
		if err := rules.WriteDiff(&b, rules.Diff(test.before, test.after), nil); err != nil || b.String() != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, b.String(), test.want)
		}
	}
}
