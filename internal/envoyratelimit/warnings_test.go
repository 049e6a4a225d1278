package envoyratelimit_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules/envoyrules"
)

// The configurations that envoyproxy/ratelimit publishes, in examples and tests, have no warnings.
func TestWarnings_Published(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit").Output()
	if err != nil {
		t.Fatal(err)
	}
	parse, sets := envoyrules.Parser(func(envoyrules.Remark) {}), 0
	err = filepath.WalkDir(strings.TrimSpace(string(folder)), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, _ := parse(path, text) // others are not configurations, or invalid on purpose
		for _, set := range found {
			sets++
			for _, w := range set.Warnings().List {
				t.Errorf("%s: %v", path, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sets < 8 {
		t.Errorf("only %d rule sets were found", sets)
	}
}
