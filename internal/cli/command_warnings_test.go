package cli

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
)

// The last warnings, from a server and from Redis.
func TestWarnings_Ways(t *testing.T) {
	settings := inRedis(t)
	address, check := startRules(t, settings, `id: api-limits
rules:
  - {id: budget, cost: usd, limitScope: USER_ID, bands: [{label: month, kind: quota, capacity: 5 USD, period: month, warnAt: [80%]}]}
`)
	at := direct(t, settings)
	server := testTarget{flags: []string{"-s", "http://" + address}}
	for _, from := range []testTarget{server, at} {
		if code, out, errs := call(t, append([]string{"warnings"}, from.flags...)...); code != exitOK || out != "no limit with warnAt has reached a warning level\n" {
			t.Errorf("%d %s%s", code, out, errs)
		}
	}
	check("--user", "ada", "--costs", "usd=4000000")
	for _, from := range []testTarget{server, at} {
		code, out, errs := call(t, append([]string{"warnings"}, from.flags...)...)
		if code != exitOK || !regexp.MustCompile(`^TIME +RULE SET +RULE +LIMIT +AT +USED +KEY\n\S+Z +api-limits +budget +month +80% +\$4.00 of \$5.00 +[0-9a-f]{48}\n$`).MatchString(out) {
			t.Errorf("%d %s%s", code, out, errs)
		}
		var found []admin.Warning
		_, out, _ = call(t, append([]string{"warnings", "--limit", "1", "-o", "json"}, from.flags...)...)
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || found[0].Used != 4_000_000 {
			t.Errorf("%v: %s", err, out)
		}
	}
	if code, _, errs := call(t, append([]string{"warnings", "--limit", "201"}, server.flags...)...); code != exitUsage {
		t.Errorf("%d %s", code, errs)
	}
}
