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

// pages are the Markdown files of the repository, without code blocks.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := filesOf(t, ".md")
	for name, text := range found {
		found[name] = fencedBlock.ReplaceAllString(text, "")
	}
	return found
}

// filesOf are the files of the repository whose names end like that.
func filesOf(t *testing.T, suffix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, suffix) {
			found[name] = readFile(t, name)
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("found %d files: %v", len(found), err)
	}
	return found
}

// anchors are the anchors that GitHub gives the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range mdHeading.FindAllStringSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

// Every relative link of a Markdown file leads to a file and a heading that exist.
func TestDocs_Links(t *testing.T) {
	all, checked := pages(t), 0
	for name, text := range all {
		for _, link := range mdLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			checked++
			path, anchor, _ := strings.Cut(link[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", name, link[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s: %s has no such heading", name, link[1], target)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// Messages name pages of the site that exist: a user of the binary does not have docs/.
func TestDocs_LinksInMessages(t *testing.T) {
	const site = "https://fluxgate.github.io/fluxgate/"
	all, checked := pages(t), 0
	file := regexp.MustCompile(`docs/[a-z-]+\.md`)
	url := regexp.MustCompile(regexp.QuoteMeta(site) + `([a-z-]+)(?:#([a-z-]+))?`)
	for name, text := range filesOf(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text = strings.NewReplacer(`docsURL + "`, site, `"+docsURL+"`, site).Replace(text)
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "// ")
			if page := file.FindString(line); page != "" {
				t.Errorf("%s: a message names %s, want %s", name, page, site)
			}
			for _, link := range url.FindAllStringSubmatch(line, -1) {
				checked++
				page := all["docs/"+link[1]+".md"]
				if page == "" || link[2] != "" && !anchors(page)[link[2]] {
					t.Errorf("%s: %s does not exist", name, link[0])
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("only %d links were found", checked)
	}
}
