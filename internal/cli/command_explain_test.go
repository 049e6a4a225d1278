package cli

import (
	"encoding/json"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
)

// explain shows the decision, the rules that apply and why the others do not.
func TestExplain(t *testing.T) {
	const verdict = "allowed (ok)\nRULE LIMIT LEFT OF FULL IN MODE\nall daily 96 100 TIME shadow\nper-user hourly 6 10 TIME enforce\nper-user 5-per-1h 1 5 TIME enforce\n\n"
	const memory = "\n\nRULE FROM MEMORY\nall none: a shadow rule does not reject; refills below 200 a second\nper-user rejections; no local tokens: capacity 5 is below 40"
	address, check := startTiered(t, inRedis(t))
	at := testTarget{flags: []string{"-s", "http://" + address}}
	check("--user", "ada", "--path", "/api/orders", "--cost", "4")
	at.runLines(t, "", []line{
		{command: "explain --user ada --path /api/orders", stdout: verdict +
			"RULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\nper-user yes counts by userId KEY\nrules of api-limits that do not apply: 5; --all shows why" + memory},
		{command: "explain --user ada --path /api/orders --all --rule-set api-limits", stdout: verdict +
			"RULE APPLIES WHY BUCKET\nhealth no path -\nbanned no user -\npremium no attribute tier KEY\nall yes counts all together, in shadow KEY\n" +
			"keyed no path -\noff no disabled -\nper-user yes counts by userId KEY" + memory},
		{command: "explain --user ada --path /api/orders --cost 2", stdout: "rejected (limited), try again in TIME\nRULE LIMIT COST LEFT OF FULL IN MODE\n" +
			"all daily 2 96 100 TIME shadow\nper-user hourly 2 6 10 TIME enforce\nper-user 5-per-1h 2 1 5 TIME enforce\n\n" +
			"RULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\nper-user yes counts by userId KEY\nrules of api-limits that do not apply: 5; --all shows why" + memory},
		{command: "explain --ip 192.0.2.7 --path /api/orders --attribute tier=premium --all", stdout: "allowed (ok)\nRULE LIMIT LEFT OF FULL IN MODE\n" +
			"premium hourly 100 100 TIME enforce\nall daily 96 100 TIME shadow\n\nRULE APPLIES WHY BUCKET\nhealth no path -\nbanned no user -\n" +
			"premium yes counts by ip, without userId KEY\nall yes counts all together, in shadow KEY\nkeyed no path -\noff no disabled -\nper-user no group, after premium KEY" +
			"\n\nRULE FROM MEMORY\npremium rejections; no local tokens: refills below 200 a second\nall none: a shadow rule does not reject; refills below 200 a second"},
		{command: "explain --path /health --all", stdout: "allowed (exempt)\n\nRULE APPLIES WHY BUCKET\nhealth yes allows it -\nbanned no user -\n" +
			"premium no path KEY\nall no ended, after health KEY\nkeyed no path -\noff no disabled -\nper-user no path KEY"},
		{command: "explain --path /other", stdout: "allowed (no-rule), only shadow rules apply\nRULE LIMIT LEFT OF FULL IN MODE\nall daily 96 100 TIME shadow\n\n" +
			"RULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\nrules of api-limits that do not apply: 6; --all shows why" +
			"\n\nRULE FROM MEMORY\nall none: a shadow rule does not reject; refills below 200 a second"},
		{command: "explain --user eve", stdout: "rejected (denied)\n\nRULE APPLIES WHY BUCKET\nbanned yes rejects it -\nrules of api-limits that do not apply: 6; --all shows why"},
		{command: "explain --path /keyed", stdout: "rejected (missing-identity)\n\nRULE APPLIES WHY BUCKET\nall yes counts all together, in shadow KEY\n" +
			"keyed yes rejects it without apiKey -\nrules of api-limits that do not apply: 5; --all shows why\n\nRULE FROM MEMORY\nall none: a shadow rule does not reject; refills below 200 a second"},
		{command: "explain --path /health -o yaml", stdout: "ruleSet: api-limits\nrules:\n  - rule: health\n    applies: true\n    action: allow\n    priority: 100\n" +
			"decision:\n  allowed: true\n  reason: exempt\n  rule: health\n  remaining: 0\nnotApplying: 6"},
		{command: "explain --rule-set nope", code: exitError, stderr: "see fluxgate rules list"},
	})
	code, out, errs := call(t, append([]string{"explain", "--path", "/health", "--all", "-o", "json"}, at.flags...)...)
	var found admin.Explanation
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil || len(found.Rules) != 7 || !found.Decision.Allowed || len(found.Rules[2].Key) != 48 {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
}

// Commands that describe a request take its descriptor.
func TestExplain_Descriptor(t *testing.T) {
	address, check := startRules(t, inRedis(t), `id: api-limits
rules:
  - id: login
    when: {descriptor: [{key: route, value: login}, {key: client}]}
    limitScope: COMPOSITE
    compositeKeyFields: [descriptor]
    bands: [{label: hourly, capacity: 4, refill: 1h}]
`)
	at := testTarget{flags: []string{"-s", "http://" + address}, place: "at http://" + address}
	check("--descriptor", "route=login", "--descriptor", "client=a=b")
	const memory = "\n\nRULE FROM MEMORY\nlogin rejections; no local tokens: capacity 4 is below 40"
	at.runLines(t, "", []line{
		{command: "explain --descriptor route=login --descriptor client=a=b", stdout: "allowed (ok)\nRULE LIMIT LEFT OF FULL IN\nlogin hourly 3 4 TIME\n\n" +
			"RULE APPLIES WHY BUCKET\nlogin yes counts by descriptor KEY" + memory},
		{command: "explain --descriptor client=a=b --descriptor route=login --all", stdout: "allowed (no-rule)\n\nRULE APPLIES WHY BUCKET\nlogin no descriptor route KEY"},
		{command: "bucket reset --rule-set api-limits --rule login --descriptor route=login --descriptor client=a=b --yes", stdout: "reset the bucket of one caller of rule login in api-limits"},
		{command: "explain --descriptor route=login --descriptor client=a=b", stdout: "allowed (ok)\nRULE LIMIT LEFT OF FULL IN\nlogin hourly 4 4 TIME\n\n" +
			"RULE APPLIES WHY BUCKET\nlogin yes counts by descriptor KEY" + memory},
	})
}
