package cli

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
)

// The last warnings of a server.
func TestWarnings(t *testing.T) {
	address, check := startRules(t, inRedis(t), `id: api-limits
rules:
  - {id: budget, cost: usd, limitScope: USER_ID, bands: [{label: month, kind: quota, capacity: 5 USD, period: month, warnAt: [80%]}]}
`)
	at := testTarget{flags: []string{"-s", "http://" + address}}
	if out := at.mustCall(t, "warnings"); out != "no limit with warnAt has reached a warning level\n" {
		t.Error(out)
	}
	check("--user", "ada", "--costs", "usd=4000000")
	out := at.mustCall(t, "warnings")
	if !regexp.MustCompile(`^TIME +RULE SET +RULE +LIMIT +AT +USED +KEY\n\S+Z +api-limits +budget +month +80% +\$4.00 of \$5.00 +[0-9a-f]{48}\n$`).MatchString(out) {
		t.Error(out)
	}
	var found []admin.Warning
	out = at.mustCall(t, "warnings", "--limit", "1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || found[0].Used != 4_000_000 {
		t.Errorf("%v: %s", err, out)
	}
	if code, _, errs := call(t, append([]string{"warnings", "--limit", "201"}, at.flags...)...); code != exitUsage {
		t.Errorf("%d %s", code, errs)
	}
}
