package internal

import (
	"slices"
	"strings"
	"testing"
)

// generated are pages that tests and measurements write. README.ko.md is a translation.
var generated = []string{"docs/admin-api.md", "docs/cli.md", "docs/configuration.md", "docs/metrics.md", "README.ko.md"}

// The documentation stays short: each thing is said once. To add a page, shorten others.
func TestPages_Size_NoRace(t *testing.T) {
	const onePage, all = 2_500, 50_400
	total := 0
	for _, path := range pages(t) {
		if slices.Contains(generated, path) {
			continue
		}
		words := len(strings.Fields(readPage(t, path)))
		if total += words; words > onePage {
			t.Errorf("%s has %d words, more than %d", path, words, onePage)
		}
	}
	if total > all {
		t.Errorf("the hand-written pages have %d words, more than %d", total, all)
	}
	t.Logf("%d words", total)
}
