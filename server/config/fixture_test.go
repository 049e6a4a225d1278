package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
)

// load loads what must be good.
func load(t testing.TB, from config.Sources) *config.Config {
	t.Helper()
	c, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write writes a file for one test.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plain is a configuration without the origins of its values.
func plain(c *config.Config) string {
	return regexp.MustCompile(`(?m) # \S+$| # --set \S+$`).ReplaceAllString(c.String(), "")
}

// golden compares with a file, or writes it.
func golden(t testing.TB, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s is not\n%s\n(%v; UPDATE_GOLDEN=1 writes it)", file, got, err)
	}
}
