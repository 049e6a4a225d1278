package fluxgate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fencedBlock = regexp.MustCompile("(?s)\n```.*?\n```")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	mdLink      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the anchors that GitHub gives the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range mdHeading.FindAllStringSubmatch(fencedBlock.ReplaceAllString(page, ""), -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

// Every relative link of a Markdown file leads to a file and a heading that exist.
func TestDocs_Links(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(page, ".md") {
			return nil
		}
		text := codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(readFile(t, page), ""), "")
		for _, link := range mdLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			checked++
			name, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", page, link[1], err)
			} else if anchor != "" && !anchors(readFile(t, target))[anchor] {
				t.Errorf("%s: %s: %s has no such heading", page, link[1], target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}
