package fluxgate_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/store"
)

// The source of an answer is spelt alike in the description of the API, in the client that
// is generated from it, and in the documentation of answers and metrics.
func TestSource_SpeltAlike(t *testing.T) {
	var names []string
	for s := store.Source(0); s.String() != "unknown"; s++ {
		if parsed, ok := store.ParseSource(s.String()); !ok || parsed != s {
			t.Errorf("%s is read as %s", s, parsed)
		}
		names = append(names, s.String())
	}
	word := regexp.MustCompile(`\b[a-zA-Z]+(?:[-_ ][a-z]+)?\b`)
	for file, places := range map[string]string{
		"server/check/openapi.json":             `"source": \{[^}]*"enum": (\[[^\]]*\])`,
		"server/adminapi/testdata/openapi.json": `"What answered: ([^.]*), if anything\.`,
		"clients/typescript/src/schema.ts":      `(?m)^ *source\??: (.*);$`,
		"docs/api.md":                           "(?m)^\\| `source` \\| where the binding answer came from: (.*)`; ",
		"docs/metrics.md":                       "(?m)^\\| `source` of `fluxgate_decisions_total` .*\\| (`store`.*), `none` \\|$",
	} {
		found := regexp.MustCompile(places).FindAllStringSubmatch(readFile(t, file), -1)
		for _, list := range found {
			text := strings.NewReplacer(" or ", ", ", "(an earlier refusal)", "").Replace(list[1])
			if got := word.FindAllString(text, -1); !slices.Equal(got, names) {
				t.Errorf("%s has %q, want %q", file, got, names)
			}
		}
		if len(found) == 0 {
			t.Errorf("%s has no sources", file)
		}
	}
}
