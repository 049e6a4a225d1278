package fluxgate_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A measured number in docs/faq.md is in a page that its answer links to, so that
// it changes with that.
func TestFAQ_Numbers(t *testing.T) {
	measured := regexp.MustCompile(`\d[\d,.]* (?:ms|s|B)\b`)
	found := 0
	for _, answer := range strings.Split(readFile(t, "docs/faq.md"), "\n## ")[1:] {
		title, _, _ := strings.Cut(answer, "\n")
		var linked strings.Builder
		for _, link := range mdLink.FindAllStringSubmatch(answer, -1) {
			if page, _, _ := strings.Cut(link[1], "#"); page != "" {
				linked.WriteString(readFile(t, filepath.Join("docs", page)))
			}
		}
		for _, number := range measured.FindAllString(answer, -1) {
			if found++; !strings.Contains(linked.String(), number) {
				t.Errorf("%s %s is in none of the pages that it links to", title, number)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d numbers were found", found)
	}
}
