package rules_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// Every column of overrides as CSV is read.
func TestParseOverrides(t *testing.T) {
	got, err := rules.ParseOverrides(strings.NewReader("\ufeff"+`rule,userId,attr:tenant,apiKey,times,bands,until,reason
standard,alice,,,2.5,,2027-01-31T00:00:00Z,"a launch, of ""it"""
standard,"bob | x",acme,,,"[{""capacity"": 10, ""refill"": ""1s""}]",,
standard,,,secret,2,,,"two
lines"

everyone,,,,1,,,
`), "api")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range got {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ",")
		lines = append(lines, rest)
	}
	want := `"ruleSetId":"api","ruleId":"standard","identity":{"userId":"alice"},"times":2.5,"until":"2027-01-31T00:00:00Z","reason":"a launch, of \"it\""}
"ruleSetId":"api","ruleId":"standard","identity":{"attr:tenant":"acme","userId":"bob | x"},"bands":[{"capacity":10,"refillTokens":10,"refillSeconds":1}]}
"ruleSetId":"api","ruleId":"standard","identity":{"apiKey":"` + rules.DigestAPIKey("secret") + `"},"times":2,"reason":"two\nlines"}
"ruleSetId":"api","ruleId":"everyone","identity":{},"times":1}`
	if all := strings.Join(lines, "\n"); all != want {
		t.Errorf("got\n%s\nwant\n%s", all, want)
	}
	if none, err := rules.ParseOverrides(strings.NewReader("rule,userId,times\n"), "api"); err != nil || len(none) != 0 {
		t.Errorf("a file without overrides: %v, %v", none, err)
	}
}

// A problem of CSV names the line and the column and has no values.
func TestParseOverrides_Problems(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                  "the first line must name the columns",
		"userId,times\nann,1\n":                             "line 2: an override needs a valid rule set and rule",
		"rule,user\n":                                       `line 1: column "user" is there twice, or neither rule, times`,
		"rule,times,times\n":                                `line 1: column "times" is there twice`,
		"rule,times\na,1\na\nb,secret\n":                    "record on line 3: wrong number of fields",
		"rule,times\na,1\nb,secret\n":                       "line 3: column times: must be a number",
		"rule,times,userId\na,1,secret\"\n":                 "parse error on line 2",
		"rule,times\na,\n":                                  "line 2: an override has either times or bands",
		"rule,times,until\na,1,secret\n":                    "line 2: column until: must be a moment",
		"rule,bands\na,secret\n":                            "line 2: column bands: must be a JSON list",
		"rule,bands\na,[] secret\n":                         "line 2: column bands: must be a JSON list",
		"rule,bands\na,\"[{\"\"x\"\":1}]\"\n":               "line 2: column bands: bands[0]",
		"rule,bands\na,[1]\n":                               "line 2: column bands: bands[0] is not valid",
		"rule,bands\na,\"[{\"\"refill\"\":\"\"1s\"\"}]\"\n": "bands[0].capacity: must be at least 1",
		"rule,times\n,1\n":                                  "line 2: an override needs a valid rule set and rule",
		"rule,times,apiKey\na,1,sha256:0123\n":              "line 2: the \"apiKey\" of an identity must",
	} {
		got, err := rules.ParseOverrides(strings.NewReader(text), "api")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || got != nil {
			t.Errorf("%.50q: %v, want %s", text, err, want)
		}
	}
	many := "rule,userId,times\n" + strings.Repeat("a,x,2\n", rules.MaxOverrides+1)
	if _, err := rules.ParseOverrides(strings.NewReader(many), "api"); !errors.Is(err, rules.ErrTooManyOverrides) {
		t.Error(err)
	}
}

func FuzzParseOverrides(f *testing.F) {
	f.Add("rule,userId,times\na,b,2\n")
	f.Add("rule,attr:x,bands,until,reason\na,b,\"[{\"\"capacity\"\":1,\"\"refill\"\":\"\"1s\"\"}]\",2027-01-31T00:00:00Z,\"x\ny\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := rules.ParseOverrides(strings.NewReader(text), "api")
		if err != nil {
			return
		}
		for _, o := range list {
			data, err := json.Marshal(o)
			var again rules.Override
			if err == nil {
				err = json.Unmarshal(data, &again)
			}
			if err != nil || again.ID() != o.ID() {
				t.Errorf("%q became %s: %v", text, data, err)
			}
		}
	})
}
