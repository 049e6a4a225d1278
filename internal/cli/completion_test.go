package cli

import (
	"strings"
	"testing"
)

// The shell completes ids of rule sets and keys of the configuration.
func TestCompletion_IDsAndKeys(t *testing.T) {
	rules := write(t, t.TempDir(), "rules.yaml", "ruleSets:\n"+indent(ruleSet("api-limits", 2))+indent(ruleSet("other", 2)))
	settings := []string{"redis.enabled=false", "mongo.enabled=false", "rules.file=" + rules}
	admin, _ := serveWith(t, settings...)
	t.Setenv("FLUXGATE_ADMIN", admin)
	direct := "--direct --set " + strings.Join(settings, " --set ")
	for _, c := range []struct{ line, want, not string }{
		{"rules get ", "api-limits\nother\n", ""},
		{"rules get " + direct + " ", "api-limits\nother\n", ""},
		{"rules history o", "other\n", "api-limits"},
		{"rules restore api-limits ", "", "other"},
		{"rules delete ", "other\n", ""},
		{"rules diff ", "other\n", ""},
		{"explain --rule-set ", "other\n", ""},
		{"bucket peek --rule-set ", "other\n", ""},
		{"check --rule-set ", "other\n", ""},
		{"serve --set redis.u", "redis.uri=\n", "mongo"},
		{"doctor --set ", "rules.file=\n", ""},
		{"doctor --set reload.strategy=", "reload.strategy=REDIS_PUBSUB\n", ""},
		{"rules get --server 127.0.0.1:1 ", "", "other"},
	} {
		args := strings.Split(c.line, " ")
		code, out, _ := call(t, append([]string{"__complete"}, args...)...)
		if code != exitOK || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("fluxgate %s<TAB>: exit code %d\n%s", c.line, code, out)
		}
	}
}

// indent makes a document an element of a list.
func indent(document string) string {
	return "  - " + strings.ReplaceAll(strings.TrimSpace(document), "\n", "\n    ") + "\n"
}
