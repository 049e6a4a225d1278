package cli

import (
	"strings"
	"testing"
)

const pricedRules = `id: llm
costTables:
  usd:
    "*":
      input: 15000000
      cachedInput: 0
      output: 75000000
    gpt-4o:
      input: 2500000
      output: 10000000
      maxOutputTokens: 16384
rules:
  - id: budget
    limitScope: USER_ID
    cost: usd
    bands:
      - kind: quota
        label: month
        capacity: 500000000
        period: month
  - id: calls
    bands:
      - label: hour
        capacity: 600
        refill: 1h
`

// Cost tables are applied, printed as they were written, and compared. A change of them
// alone is a change.
func TestRules_CostTables(t *testing.T) {
	for name, at := range testTargets(t) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, "rules.yaml", pricedRules)
			write(t, folder, "cheaper.yaml", strings.Replace(pricedRules, "2500000", "2000000", 1))
			const change = "\n~ cost tables\n    costTables.usd.gpt-4o.input: 2500000 → 2000000"
			at.runLines(t, folder, []line{
				{command: "rules validate -f FOLDER/rules.yaml", stdout: "1 rule set, 2 rules: valid"},
				{command: "rules apply --yes -f FOLDER/rules.yaml", stdout: `llm, new: cost tables added, 2 added
+ cost tables
    costTables.usd["*"]: {"cachedInput":0,"input":15000000,"output":75000000}
    costTables.usd.gpt-4o: {"input":2500000,"maxOutputTokens":16384,"output":10000000}
+ budget
    limitScope: "USER_ID"
    cost: "usd"
    bands[month]: {"capacity":"500 USD","kind":"quota","period":"month","timezone":"UTC"}
+ calls
    bands[hour]: {"capacity":600,"refill":"1h"}
llm: revision 1`},
				{command: "rules get llm", stdout: pricedRules},
				{command: "rules diff -f FOLDER/rules.yaml", stdout: "llm: unchanged (revision 1)"},
				{command: "rules diff -f FOLDER/cheaper.yaml", code: exitDrift, stdout: "llm, revision 1: cost tables changed" + change},
				{command: "rules apply --yes -f FOLDER/cheaper.yaml", stdout: "llm, revision 1: cost tables changed" + change + "\nllm: revision 2, was 1"},
				{command: "rules restore llm 1 --yes", stdout: "llm, revision 2: cost tables changed\n~ cost tables\n    costTables.usd.gpt-4o.input: 2000000 → 2500000\nllm: revision 3, was 2"},
				{command: "rules get llm", stdout: pricedRules},
			})
		})
	}
}

// check takes and explain shows what a request costs by each measure.
func TestCosts_Flags(t *testing.T) {
	rules := write(t, t.TempDir(), "rules.yaml", pricedRules)
	adminAddr, httpAddr := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+rules)
	const uncounted = "no rule that applies counts images: its cost has no effect\n"
	const columns = "allowed (ok)\nRULE LIMIT COUNTS COST LEFT OF FULL IN\n"
	explain := testTarget{flags: []string{"--rule-set", "llm", "--server", "http://" + adminAddr}}
	check := testTarget{flags: []string{"--rule-set", "llm", "--server", "http://" + httpAddr}}
	verdicts := "\n\nRULE APPLIES WHY BUCKET\nbudget yes counts by userId KEY\ncalls yes counts all together KEY"
	explain.runLines(t, "", []line{
		{command: "explain --user ada --model gpt-4o --input-tokens 6000 --max-output-tokens 10000",
			stdout: columns + "budget month usd $0.115 $500.00 $500.00 TIME\ncalls hour requests 1 600 600 TIME" + verdicts},
		{command: "explain --user ada --model gpt-4o", stdout: columns + "budget month usd $0.164 $500.00 $500.00 TIME\ncalls hour requests 1 600 600 TIME" + verdicts},
		{command: "explain --user ada --input-tokens 2", stdout: columns + "budget month usd $0.00003 $500.00 $500.00 TIME\ncalls hour requests 1 600 600 TIME" + verdicts},
		{command: "explain --user ada --costs usd=1200,images=2 --cost 3",
			stdout: columns + "budget month usd $0.0012 $500.00 $500.00 TIME\ncalls hour requests 3 600 600 TIME" + verdicts, stderr: uncounted},
	})
	check.runLines(t, "", []line{
		{command: "check --user ada --costs usd=100,images=2", stdout: columns + "budget month usd $0.0001 $499.99 $500.00 TIME\ncalls hour requests 1 599 600 TIME", stderr: uncounted},
		{command: "check --user ada --model gpt-4o --input-tokens 40 --max-output-tokens 10", stdout: columns + "budget month usd $0.0002 $499.99 $500.00 TIME\ncalls hour requests 1 598 600 TIME"},
	})
	for _, c := range []struct{ args, want string }{
		{"explain --costs usd=-1", "it cannot be negative"},
		{"explain --costs usd", "usd must be formatted as key=value"},
		{"check --input-tokens -1", "it cannot be negative"},
		{"check --max-output-tokens -1", "it cannot be negative"},
	} {
		if code, _, errs := call(t, strings.Fields(c.args)...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("fluxgate %s: exit code %d\n%s", c.args, code, errs)
		}
	}
}
