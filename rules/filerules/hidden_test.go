package filerules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func rulesOf(capacity, rules int) string {
	var b strings.Builder
	b.WriteString("id: a\nrules:\n")
	for i := range rules {
		fmt.Fprintf(&b, "  - id: rule-%d\n    bands:\n      - label: only\n        capacity: %d\n        refill: 1m\n", i, capacity)
	}
	return b.String()
}

// replace replaces a file atomically.
func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", []byte(content), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

func openHidden(t *testing.T, config Config) (*Source, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rulesOf(1000, 12)), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := Open(file, config)
	if err != nil {
		t.Fatal(err)
	}
	return source, file
}

// A file that is still being written is not used. A writer writes it in steps of
// 50 bytes, many of which are valid YAML.
func TestLoad_HalfWrittenFile(t *testing.T) {
	source, file := openHidden(t, Config{})
	source.pause = func(context.Context, time.Duration) error { return nil }
	before, err := source.Load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	content := rulesOf(2000, 12)
	// Whatever the writer's progress when the read begins, it continues to
	// write while the reader waits.
	for start := 0; start <= len(content); start += 50 {
		written, good := start, 0
		step := func() {
			if err := os.WriteFile(file, []byte(content[:written]), 0o600); err != nil {
				t.Fatal(err)
			}
			if sets, err := Parse(file, []byte(content[:written])); err == nil && sets[0].Len() < 12 {
				good++
			}
		}
		step()
		source.pause = func(context.Context, time.Duration) error {
			if written < len(content) {
				written = min(written+50, len(content))
				step()
			}
			return nil
		}
		version, err := source.Load(t.Context(), "a")
		switch {
		case err != nil: // too long
		case version.Revision == before.Revision:
		case version.RuleSet.Len() == 12:
			for r := range version.RuleSet.Rules() {
				if r.Bands[0].Capacity != 2000 {
					t.Fatalf("begun at %d: rule %s has the capacity %d", start, r.ID, r.Bands[0].Capacity)
				}
			}
		default:
			t.Fatalf("begun at %d: %d rules", start, version.RuleSet.Len())
		}
		if start == 0 && good == 0 {
			t.Fatal("no step was good YAML: the test shows nothing")
		}
	}
}

// Files that keep changing are an error.
func TestLoad_ChangingFiles(t *testing.T) {
	source, file := openHidden(t, Config{})
	n := 0
	source.pause = func(context.Context, time.Duration) error {
		n++
		return os.WriteFile(file, []byte(rulesOf(n, 1)), 0o600)
	}
	if _, err := source.Load(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "keep changing") {
		t.Errorf("Load: %v", err)
	}
}

// A file that is missing for a moment is waited for.
func TestLoad_ReplacedFile(t *testing.T) {
	source, file := openHidden(t, Config{})
	if err := os.Rename(file, file+"~"); err != nil {
		t.Fatal(err)
	}
	back := false
	source.pause = func(context.Context, time.Duration) error {
		if back {
			return nil
		}
		back = true
		return os.Rename(file+"~", file)
	}
	if _, err := source.Load(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// An edit that keeps the size and an old time is found when the interval is over.
func TestRefresh_SameMetadata(t *testing.T) {
	source, file := openHidden(t, Config{Interval: time.Hour, Settle: time.Millisecond})
	old := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		capacity, want int
		interval       time.Duration
	}{{1, 1, time.Hour}, {2, 1, time.Hour}, {3, 3, time.Nanosecond}} {
		if err := errors.Join(os.WriteFile(file, []byte(rulesOf(c.capacity, 1)), 0o600), os.Chtimes(file, old, old)); err != nil {
			t.Fatal(err)
		}
		source.config.Interval = c.interval
		now, err := source.refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for r := range now.Versions["a"].RuleSet.Rules() {
			if got := int(r.Bands[0].Capacity); got != c.want {
				t.Errorf("with the capacity %d in the file, a refresh has %d, want %d", c.capacity, got, c.want)
			}
		}
	}
}

// An unchanged file is not parsed again.
func TestRefresh_UnchangedFile(t *testing.T) {
	source, file := openHidden(t, Config{Settle: time.Millisecond})
	other := filepath.Join(filepath.Dir(file), "other.yaml")
	source.path = filepath.Dir(file)
	documents := func(content string) map[string]*document {
		replace(t, other, content)
		now, err := source.refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*document{}
		for _, d := range now.documents {
			byName[d.file.Name] = d
		}
		return byName
	}
	before, after := documents("id: b\nrules: []\n"), documents("id: c\nrules: []\n")
	if before[file] != after[file] || before[other] == after[other] {
		t.Error("the file that has not changed was parsed again, or the one that has was not")
	}
}

// A folder with too many entries is an error, whatever they are; with as many as allowed its
// rule files are found by name.
func TestFind_Bound(t *testing.T) {
	defer func(most int) { maxEntries = most }(maxEntries)
	dir := t.TempDir()
	for _, name := range []string{"b.json", ".hidden", "a.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	maxEntries = 2
	if _, err := find(dir, &Config{}); err == nil || !strings.Contains(err.Error(), dir+" has more than 2 entries") {
		t.Errorf("error %v", err)
	}
	maxEntries = 3
	files, err := find(dir, &Config{})
	if err != nil || len(files) != 2 || files[0].name != filepath.Join(dir, "a.yaml") {
		t.Errorf("%v, %v", files, err)
	}
}
