package cli

import (
	"strings"
	"testing"
)

// The shell completes keys of the configuration and their values.
func TestCompletion_Settings(t *testing.T) {
	for _, c := range []struct{ line, want, not string }{
		{"serve --set redis.u", "redis.uri=\n", "mongo"},
		{"doctor --set ", "rules.file=\n", ""},
		{"doctor --set reload.strategy=", "reload.strategy=REDIS_PUBSUB\n", ""},
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
