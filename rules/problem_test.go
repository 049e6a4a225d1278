package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

func TestPath_String(t *testing.T) {
	for want, path := range map[string]rules.Path{
		"":                                nil,
		"rules[3].bands[0].capacity":      {"rules", 3, "bands", 0, "capacity"},
		"when.headers.X-Plan[1]":          {"when", "headers", "X-Plan", 1},
		`when.headers["X.Plan"][0]`:       {"when", "headers", "X.Plan", 0},
		`attributes[""]["a b"]["\"\x1b"]`: {"attributes", "", "a b", "\"\x1b"},
		`["rules[0]"]`:                    {"rules[0]"},
	} {
		if got := path.String(); got != want {
			t.Errorf("%#v is %s, want %s", path, got, want)
		}
	}
}

// A path is the same after it was sent as JSON; anything but names and positions
// is refused.
func TestPath_JSON(t *testing.T) {
	path := rules.Path{"rules", 3, "", "a.b", 0}
	text, err := json.Marshal(path)
	if err != nil || string(text) != `["rules",3,"","a.b",0]` {
		t.Fatalf("written as %s, %v", text, err)
	}
	var again rules.Path
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, path) {
		t.Errorf("read as %#v, %v", again, err)
	}
	for _, wrong := range []string{`"rules"`, `[null]`, `[["rules"]]`, `[{}]`, `[true]`} {
		if err := json.Unmarshal([]byte(wrong), &again); err == nil {
			t.Errorf("%s is read as %#v", wrong, again)
		}
	}
}

func TestPath_Rule(t *testing.T) {
	for _, c := range []struct {
		path, inside rules.Path
		index        int
	}{
		{rules.Path{"rules", 3, "id"}, rules.Path{"id"}, 3},
		{rules.Path{"rules", 0}, rules.Path{}, 0},
		{rules.Path{"rules"}, rules.Path{"rules"}, -1},
		{rules.Path{"id"}, rules.Path{"id"}, -1},
		{rules.Path{"rules", "id"}, rules.Path{"rules", "id"}, -1},
		{nil, nil, -1},
	} {
		if index, inside := c.path.Rule(); index != c.index || !reflect.DeepEqual(inside, c.inside) {
			t.Errorf("%v is %d, %#v, want %d, %#v", c.path, index, inside, c.index, c.inside)
		}
	}
}

// Programs decide by codes and paths, so they are part of the API.
func TestParseRuleSet_Codes(t *testing.T) {
	const band = `"bands": [{"capacity": 1, "refill": "1s"}]`
	for rule, want := range map[string]rules.Problem{
		`"id": "r"`:                       {Code: rules.CodeRequired, Path: rules.Path{"rules", 0, "bands"}},
		band:                              {Code: rules.CodeRequired, Path: rules.Path{"rules", 0, "id"}},
		`"id": "a b", ` + band:            {Code: rules.CodeInvalidValue, Path: rules.Path{"rules", 0, "id"}},
		`"id": 1, ` + band:                {Code: rules.CodeWrongType, Path: rules.Path{"rules", 0, "id"}},
		`"id": "r", "colour": 1, ` + band: {Code: rules.CodeUnknownField, Path: rules.Path{"rules", 0, "colour"}},
		`"id": "r", "path": "/a", "paths": ["/b"], ` + band:                                                        {Code: rules.CodeInconsistent, Path: rules.Path{"rules", 0, "path"}},
		`"id": "r", "when": {"headers": {"a b": "c"}}, ` + band:                                                    {Code: rules.CodeInvalidName, Path: rules.Path{"rules", 0, "when", "headers", "a b"}},
		`"id": "r", "when": {"headers": {"a": [1]}}, ` + band:                                                      {Code: rules.CodeWrongType, Path: rules.Path{"rules", 0, "when", "headers", "a", 0}},
		`"id": "r", "bands": [{"capacity": 0, "refill": "1s"}]`:                                                    {Code: rules.CodeOutOfRange, Path: rules.Path{"rules", 0, "bands", 0, "capacity"}},
		`"id": "r", "limitScope": "COMPOSITE", "compositeKeyFields": ["ip", "ip"], ` + band:                        {Code: rules.CodeDuplicate, Path: rules.Path{"rules", 0, "compositeKeyFields", 1}},
		`"id": "r", "consistency": "leased", "bands": [{"kind": "sliding-window", "capacity": 9, "refill": "1s"}]`: {Code: rules.CodeInvalidValue, Path: rules.Path{"rules", 0, "consistency"}},
	} {
		_, err := rules.Parse([]byte(`{"id": "s", "rules": [{` + rule + `}]}`))
		var invalid *rules.ValidationError
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 {
			t.Errorf("%s: %v, want one problem", rule, err)
			continue
		}
		if got := invalid.Problems[0]; got.Code != want.Code || !reflect.DeepEqual(got.Path, want.Path) || got.Message == "" {
			t.Errorf("%s: %s %#v, want %s %#v", rule, got.Code, got.Path, want.Code, want.Path)
		}
	}
}
