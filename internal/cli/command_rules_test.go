package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

const firstRules = `id: api-limits
rules:
  - id: per-user
    path: /api/**
    limitScope: USER_ID
    bands: [{label: hourly, capacity: 2, refill: 1h}]
  - {id: health, path: /api/health, action: allow, priority: 100}
`

// A rule set from a file to production and back, over a server and directly on the
// source.
func TestRules_Lifecycle(t *testing.T) {
	for name, at := range testTargets(t) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, "first.yaml", firstRules)
			write(t, folder, "second.yaml", strings.Replace(firstRules, "capacity: 2", "capacity: 3", 1))
			at.runLines(t, folder, []line{
				{command: "rules list", stdout: "there are no rule sets: create one with fluxgate rules apply -f FILE"},
				{command: "rules list -o json", stdout: "[]"},
				{command: "rules validate -f FOLDER/first.yaml", stdout: "1 rule set, 2 rules: valid"},
				{command: "rules diff -f FOLDER/first.yaml", code: exitDrift, stdout: created},
				{command: "rules apply -f FOLDER/first.yaml", code: exitDrift, stdout: created, stderr: "nothing was changed: there is no terminal to ask for confirmation"},
				{command: "rules apply -f FOLDER/first.yaml", stdin: &terminal{answer: "n\n"}, code: exitDrift, stdout: created, stderr: "[y/N] nothing was changed"},
				{command: "rules apply -f FOLDER/first.yaml", stdin: &terminal{}, code: exitDrift, stdout: created, stderr: "[y/N] \nnothing was changed"},
				{command: "rules get api-limits", code: exitError, stderr: "see fluxgate rules list for the existing rule sets\n"},
				{command: "rules history api-limits", code: exitError, stderr: "not found"},
				{command: "rules apply -f FOLDER/first.yaml -m begin", stdin: &terminal{answer: "Yes\n"}, stdout: created + "\napi-limits: revision 1",
					stderr: "Apply this to 1 rule set PLACE? [y/N] "},
				{command: "rules apply -f FOLDER/first.yaml --yes", stdout: "api-limits: unchanged (revision 1)"},
				{command: "rules diff -f FOLDER/first.yaml", stdout: "api-limits: unchanged (revision 1)"},
				{command: "rules list", stdout: "RULE SET REVISION CHANGED BY WHY\napi-limits 1 MOMENT WHO begin"},
				{command: "rules list -o yaml", stdout: "- id: api-limits\n  revision: 1\n  author: WHO\n  comment: begin\n  at: \"MOMENT\""},
				{command: "rules diff -f FOLDER/second.yaml", code: exitDrift, stdout: raised},
				{command: "rules diff -f FOLDER/second.yaml -o json", code: exitDrift, stdout: raisedJSON},
				{command: "rules diff -f FOLDER/second.yaml -o yaml", code: exitDrift, stdout: raisedYAML},
				{command: "rules apply -f FOLDER/second.yaml --yes", stdout: raised + "\napi-limits: revision 2, was 1"},
				{command: "rules get api-limits", stdout: document(3)},
				{command: "rules get api-limits --revision 1", stdout: document(2)},
				{command: "rules get api-limits --revision 7", code: exitError, stderr: "not found\nsee fluxgate rules history api-limits for the existing revisions"},
				{command: "rules get api-limit", code: exitError, stderr: "not found\nsee fluxgate rules list for the existing rule sets"},
				{command: "rules get api-limit --revision 1", code: exitError, stderr: "not found\nsee fluxgate rules history api-limit for the existing revisions"},
				{command: "rules history api-limit", code: exitError, stderr: "not found\nsee fluxgate rules list for the existing rule sets"},
				{command: "rules restore api-limit 1", code: exitError, stderr: "not found\nsee fluxgate rules history api-limit for the existing revisions"},
				{command: "rules restore api-limits 1", code: exitDrift, stdout: lowered, stderr: "no terminal"},
				{command: "rules restore api-limits 1", stdin: &terminal{answer: "y\n"}, stdout: lowered + "\napi-limits: revision 3, was 2", stderr: "Restore revision 1 of api-limits PLACE?"},
				{command: "rules restore api-limits 1 --yes", stdout: "api-limits: unchanged (revision 3)"},
				{command: "rules delete api-limits", code: exitDrift, stdout: "api-limits, revision 3: 2 rules", stderr: "no terminal"},
				{command: "rules delete api-limits -m over", stdin: &terminal{answer: "y\n"}, stderr: "Delete api-limits PLACE?",
					stdout: "api-limits, revision 3: 2 rules\napi-limits: deleted (revision 4); fluxgate rules restore api-limits 3 brings it back"},
				{command: "rules delete api-limits --yes", code: exitError, stderr: "not found"},
				{command: "rules get api-limits --revision 4", code: exitError, stderr: "deleted rule set \"api-limits\": not found\nsee fluxgate rules history api-limits"},
				{command: "rules restore api-limits 3 --yes -m again", stdout: created + "\napi-limits: revision 5"},
				{command: "rules history api-limits", stdout: "REVISION CHANGED BY WHY\n5 MOMENT WHO again\n4 MOMENT WHO deleted: over\n" +
					"3 MOMENT WHO restore revision 1\n2 MOMENT WHO -\n1 MOMENT WHO begin"},
				{command: "rules history api-limits --limit 2", stdout: "REVISION CHANGED BY WHY\n5 MOMENT WHO again\n4 MOMENT WHO deleted: over"},
				{command: "rules history api-limits --limit 1 -o json", stdout: "[\n  {\n    \"id\": \"api-limits\",\n    \"revision\": 5,\n" +
					"    \"author\": \"WHO\",\n    \"comment\": \"again\",\n    \"at\": \"MOMENT\"\n  }\n]"},
			})
			code, out, _ := call(t, append([]string{"rules", "history", "api-limits", "--limit", "1000", "-o", "yaml"}, at.flags...)...)
			if code != exitOK || strings.Count(out, "- id: api-limits") != 5 || !strings.Contains(out, "deleted: true") {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}

const (
	created = `api-limits, new: 2 added
+ health
    paths: ["/api/health"]
    priority: 100
    action: "allow"
+ per-user
    paths: ["/api/**"]
    limitScope: "USER_ID"
    bands[hourly]: {"capacity":2,"refill":"1h"}`
	raised     = "api-limits, revision 1: 1 changed\n~ per-user\n    bands[hourly].capacity: 2 → 3"
	lowered    = "api-limits, revision 2: 1 changed\n~ per-user\n    bands[hourly].capacity: 3 → 2"
	raisedYAML = `- ruleSet: api-limits
  from: 1
  changes:
    - rule: per-user
      change: changed
      fields:
        - path: "bands[hourly].capacity"
          before: 2
          after: 3`
	raisedJSON = `[
  {
    "ruleSet": "api-limits",
    "from": 1,
    "changes": [
      {
        "rule": "per-user",
        "change": "changed",
        "fields": [
          {
            "path": "bands[hourly].capacity",
            "before": 2,
            "after": 3
          }
        ]
      }
    ]
  }
]`
)

func document(capacity int) string {
	return fmt.Sprintf(`id: api-limits
rules:
  - id: health
    path: /api/health
    action: allow
    priority: 100
  - id: per-user
    path: /api/**
    limitScope: USER_ID
    bands:
      - label: hourly
        capacity: %d
        refill: 1h`, capacity)
}

// apply accepts what get prints, without a difference.
func TestRulesGet_RoundTrip(t *testing.T) {
	at := direct(t, inRedis(t))
	file := write(t, t.TempDir(), "rules.yaml", firstRules)
	if code, _, errs := call(t, append([]string{"rules", "apply", "--yes", "-f", file}, at.flags...)...); code != exitOK {
		t.Fatal(errs)
	}
	for _, format := range []string{"yaml", "json"} {
		code, document, errs := call(t, append([]string{"rules", "get", "api-limits", "-o", format}, at.flags...)...)
		if code != exitOK || strings.Contains(document, "createdAt") {
			t.Errorf("exit code %d\n%s%s", code, document, errs)
		}
		code, out, errs := callWith(t, strings.NewReader(document), append([]string{"rules", "diff", "-f", "-"}, at.flags...)...)
		if code != exitOK || out != "api-limits: unchanged (revision 1)\n" {
			t.Errorf("%s: exit code %d\n%s%s", format, code, out, errs)
		}
		changed := strings.NewReader(strings.Replace(strings.Replace(document, "capacity: 2", "capacity: 9", 1), `"capacity": 2`, `"capacity": 9`, 1))
		code, out, _ = callWith(t, changed, append([]string{"rules", "apply", "-f", "-"}, at.flags...)...)
		if code != exitDrift || out != "api-limits, revision 1: 1 changed\n~ per-user\n    bands[hourly].capacity: 2 → 9\n" {
			t.Errorf("%s: exit code %d\n%s", format, code, out)
		}
	}
}

// shortPages is an editor with pages that are shorter than asked for, like a
// server that hides rule sets from the caller.
type shortPages struct {
	rules.Editor
	calls int
}

func (s *shortPages) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	s.calls++
	page, err := s.Editor.List(ctx, after, limit)
	return page[:min(len(page), 7)], err
}

// Lists are read to their end, page by page.
func TestRulesList_Pages(t *testing.T) {
	source := memrules.New(memrules.Config{})
	const many = 30
	for i := range many {
		set, err := rules.NewSet(fmt.Sprintf("set-%02d", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Put(t.Context(), set, rules.Change{Author: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	for format, item := range map[string]string{asTable: "\nset-", asJSON: `"id": "set-`, asYAML: "- id: set-"} {
		var out strings.Builder
		short := &shortPages{Editor: source}
		output := outputFlag{formatFlag{format: format}}
		found, err := listRuleSets(t.Context(), admin.NewDirect(short, nil, ""))
		if err == nil {
			err = output.write(&out, found, func(out io.Writer) { writeEntries(out, found, "") })
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), item); n != many || short.calls != 6 || strings.Count(out.String(), "RULE SET") > 1 {
			t.Errorf("%d rule sets in %d pages:\n%s", n, short.calls, out.String())
		}
	}
}
