package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
)

// priced returns a rule set with a cost table as JSON.
func priced(input int) string {
	tables := fmt.Sprintf(`{"id":"mine","costTables":{"usd":{"gpt-4o":{"input":%d,"output":10},"*":{"input":20,"cachedInput":0,"output":30,"maxOutputTokens":40}}},`, input)
	return strings.Replace(setOf("mine", 5), `{"id":"mine",`, tables, 1)
}

// wantTables checks the cost tables of the rule set and its revision.
func (r *rig) wantTables(t *testing.T, when string, input int, tag string) {
	t.Helper()
	want := fmt.Sprintf(`{"id":"mine","costTables":{"usd":{"*":{"input":20,"cachedInput":0,"output":30,"maxOutputTokens":40},"gpt-4o":{"input":%d,"output":10}}},`, input)
	got := r.send(t, http.MethodGet, mine, "").want(t, http.StatusOK)
	if !strings.HasPrefix(got.body, want) || got.header.Get("ETag") != tag {
		t.Errorf("%s: %s %.300s\nwant %s %s", when, got.header.Get("ETag"), got.body, tag, want)
	}
}

// Cost tables are written and read with their rule set, a change of them alone is a
// change, and the operations on single rules keep them.
func TestCostTables_Lifecycle(t *testing.T) {
	r := start(t)
	r.create(t, mine, priced(1))
	r.wantTables(t, "created", 1, `"1"`)
	r.send(t, http.MethodPut, mine, priced(1), "If-Match", `"1"`).want(t, http.StatusOK)
	r.wantTables(t, "put again", 1, `"1"`)
	r.send(t, http.MethodPut, mine, priced(2), "If-Match", `"1"`).want(t, http.StatusOK)
	r.wantTables(t, "with another weight", 2, `"2"`)

	var diff admin.Diff
	r.send(t, http.MethodGet, mine+"/diff", "").want(t, http.StatusOK).into(t, &diff)
	if got := fmt.Sprintf("%s", diff.Changes); got != "[{cost tables changed  [{costTables.usd.gpt-4o.input 1 2}]}]" {
		t.Errorf("the difference is %s", got)
	}

	r.send(t, http.MethodPut, mine+"/rules/extra", ruleOf("extra", 7), "If-Match", `"2"`).want(t, http.StatusCreated)
	r.wantTables(t, "with a rule more", 2, `"3"`)
	r.send(t, http.MethodPut, mine+"/rules/extra", ruleOf("extra", 8), "If-Match", `"3"`).want(t, http.StatusOK)
	r.wantTables(t, "with another rule", 2, `"4"`)
	r.send(t, http.MethodDelete, mine+"/rules/extra", "", "If-Match", `"4"`).want(t, http.StatusOK)
	r.wantTables(t, "with a rule less", 2, `"5"`)
	r.send(t, http.MethodPost, mine+"/revisions/1/restore", "", "If-Match", `"5"`).want(t, http.StatusOK)
	r.wantTables(t, "restored", 1, `"6"`)
	r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-Match", `"6"`).want(t, http.StatusOK)
	if set, tag := r.read(t, mine); len(set.CostTables()) > 0 || tag != `"7"` {
		t.Errorf("without tables: %s %v", tag, set.CostTables())
	}
}

// Cost tables are validated with their rule set.
func TestCostTables_Validate(t *testing.T) {
	r := start(t)
	for tables, want := range map[string]string{
		`{"usd":{"*":{"input":1,"output":2}}}`:                "[]",
		`{"usd":{"gpt-4o":{"input":1,"output":2}}}`:           `[body.costTables.usd["*"]]`,
		`{"usd":{"*":{"input":1,"output":-2,"cached":1}}}`:    `[body.costTables.usd["*"].cached body.costTables.usd["*"].output]`,
		`{"usd":{"*":{"input":"1","output":2}},"requests":5}`: `[body.costTables.requests body.costTables.usd["*"].input]`,
	} {
		var got admin.Validation
		r.send(t, http.MethodPost, "/v1/validate", `{"id":"mine","rules":[],"costTables":`+tables+`}`).want(t, http.StatusOK).into(t, &got)
		places := []string{}
		for _, e := range got.Errors {
			places = append(places, e.Location)
		}
		if fmt.Sprint(places) != want || got.Valid != (want == "[]") {
			t.Errorf("%s: valid %t, problems at %v, want %s", tables, got.Valid, places, want)
		}
	}
}

// An explanation shows what each rule counts and what the request takes from it, by
// its costs and its estimate.
func TestExplain_Costs(t *testing.T) {
	r := start(t)
	r.create(t, mine, `{"id":"mine","costTables":{"usd":{"gpt-4o":{"input":2500000,"output":10000000},"*":{"input":5000000,"output":20000000}}},"rules":[
		{"id":"calls","cost":"requests","bands":[{"capacity":100,"refill":"1h"}]},
		{"id":"images","cost":"images","bands":[{"capacity":10,"refill":"1h"}]},
		{"id":"money","cost":"usd","bands":[{"capacity":500000000,"refill":"1h"}]},
		{"id":"tokens","cost":"tokens","bands":[{"capacity":200000,"refill":"1h"}]},
		{"id":"blocked","cost":"tokens","action":"deny","path":"/blocked"}]}`)
	for request, want := range map[string]string{
		`{}`: "blocked::0 calls::0 images:images:0 money:usd:0 tokens:tokens:0",
		`{"cost":3,"costs":{"images":2,"tokens":900}}`:                                               "blocked::0 calls::3 images:images:2 money:usd:0 tokens:tokens:900",
		`{"estimate":{"model":"gpt-4o","inputTokens":1000,"maxOutputTokens":2000}}`:                  "blocked::0 calls::0 images:images:0 money:usd:22500 tokens:tokens:3000",
		`{"estimate":{"model":"gpt-4o","inputTokens":1000,"maxOutputTokens":[100,2000]}}`:            "blocked::0 calls::0 images:images:0 money:usd:22500 tokens:tokens:3000",
		`{"estimate":{"inputTokens":1000000,"maxOutputTokens":200000000},"costs":{"images":999999}}`: "blocked::0 calls::0 images:images:10 money:usd:500000000 tokens:tokens:200000",
	} {
		for _, path := range []string{"/explain", "/effective"} {
			var e admin.Explanation
			r.send(t, http.MethodPost, mine+path, request).want(t, http.StatusOK).into(t, &e)
			var got []string
			for _, v := range e.Rules {
				got = append(got, fmt.Sprintf("%s:%s:%d", v.Rule, v.Measure, v.Cost))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s of %s: %s, want %s", path, request, strings.Join(got, " "), want)
			}
		}
	}
	for _, request := range []string{
		`{"costs":{"images":-1}}`, `{"costs":{"images":"1"}}`, `{"estimate":{"inputTokens":-1}}`, `{"estimate":{"maxOutputTokens":-1}}`,
		`{"estimate":{"maxOutputTokens":[1,-1]}}`, `{"estimate":{"maxOutputTokens":"1"}}`, `{"estimate":{"tokens":1}}`,
	} {
		r.send(t, http.MethodPost, mine+"/explain", request).want(t, http.StatusUnprocessableEntity)
	}
}
