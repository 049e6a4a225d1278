package fluxgate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/security.md names as the cover of a threat exists.
func TestSecurityDocs_NamedTestsExist(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declaration.FindAllSubmatch(source, -1) {
			defined[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !defined[name[1]] {
			t.Errorf("docs/security.md names %s, which does not exist", name[1])
		}
	}
}
