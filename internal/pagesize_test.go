package internal

import (
	"slices"
	"strings"
	"testing"
)

// generated are pages that tests and measurements write. README.ko.md is a translation.
var generated = []string{"docs/admin-api.md", "docs/cli.md", "docs/configuration.md", "docs/metrics.md", "README.ko.md"}

// A page that takes a quarter of an hour to read should be two pages.
func TestPages_Size_NoRace(t *testing.T) {
	const onePage = 2_500
	for _, path := range pages(t) {
		if words := len(strings.Fields(readPage(t, path))); words > onePage && !slices.Contains(generated, path) {
			t.Errorf("%s has %d words, more than %d", path, words, onePage)
		}
	}
}
