package filerules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// All rule files of a folder are read.
func TestLoad_Folder(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	write(t, ruleSet("b", 2), dir, "b.YML")
	write(t, `{"id": "c", "rules": []}`, dir, "c.json")
	for _, ignored := range []string{".hidden.yaml", "notes.txt", "yaml", "a.yaml~", "a.yaml.swp"} {
		write(t, "not: rules", dir, ignored)
	}
	do(t, os.Mkdir(filepath.Join(dir, "inside.yaml"), 0o700))
	write(t, "not: rules", dir, "inside.yaml", "d.yaml")
	source := open(t, dir, filerules.Config{})
	ids, err := source.IDs(t.Context())
	if err != nil || strings.Join(ids, " ") != "a b c" {
		t.Fatalf("rule sets %v, %v, want a b c", ids, err)
	}
	wantCapacity(t, source, "b", 2)
	version := load(t, source, "a")
	if version.RuleSetID != "a" || version.Deleted || version.Revision <= 0 || version.Revision >= 1<<48 || time.Since(version.At) > time.Hour {
		t.Errorf("the entry is %+v", version.Entry)
	}
}

// The revision depends on the content only.
func TestRevisions_Content(t *testing.T) {
	one, other := filepath.Join(t.TempDir(), "one.yaml"), filepath.Join(t.TempDir(), "other.json")
	write(t, ruleSet("a", 5), one)
	source, elsewhere := open(t, one, filerules.Config{}), open(t, other, filerules.Config{})
	first := head(t, source, "a")

	data, err := load(t, source, "a").RuleSet.MarshalJSON()
	do(t, err)
	write(t, string(data), other)
	if got := head(t, elsewhere, "a"); got != first {
		t.Errorf("the same rules in another file are at %+v, not %+v", got, first)
	}
	write(t, "# a comment\n---\n"+strings.ReplaceAll(ruleSet("a", 5), "5", "5.0"), one)
	if got := head(t, source, "a"); got != first {
		t.Errorf("in another layout the rules are at %+v, not %+v", got, first)
	}
	seen := map[int64]bool{}
	for capacity := range 50 {
		write(t, ruleSet("a", capacity+1), one)
		now := head(t, source, "a").Revision
		if seen[now] || now <= 0 || now >= 1<<48 {
			t.Errorf("other rules are at %d, which is taken or has more than 48 bits", now)
		}
		seen[now] = true
	}
}

// An edit that keeps size, time and inode is found.
func TestLoad_SameMetadata(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, ruleSet("a", 1), file)
	edit := func(capacity int, at time.Time) {
		write(t, ruleSet("a", capacity), file)
		do(t, os.Chtimes(file, at, at))
	}
	// A recent time does not prove that a file is unchanged.
	soon := time.Now().Add(time.Hour)
	fresh := open(t, file, filerules.Config{Interval: time.Hour})
	for i := range 9 {
		edit(i+1, soon)
		wantCapacity(t, fresh, "a", i+1)
	}
	// Older times are trusted for one interval only.
	old := time.Now().Add(-time.Hour)
	edit(1, old)
	source := open(t, file, filerules.Config{Interval: 20 * time.Millisecond})
	wantCapacity(t, source, "a", 1)
	edit(2, old)
	for deadline := time.Now().Add(patience); capacityOf(load(t, source, "a").RuleSet) != 2; {
		if time.Now().After(deadline) {
			t.Fatal("the content is not read")
		}
	}
	edit(3, old)
	source = open(t, file, filerules.Config{Interval: 20 * time.Millisecond})
	reported := watching(t, source)
	edit(4, old)
	awaitCapacity(t, source, reported, 4)
}

// One invalid rule rejects the whole change.
func TestLoad_InvalidRule(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	write(t, ruleSet("b", 1), dir, "b.yaml")
	source := open(t, dir, filerules.Config{})
	before := head(t, source, "a")

	write(t, ruleSet("a", 2), dir, "a.yaml")
	write(t, ruleSet("b", -2), dir, "b.yaml")
	write(t, "id: c\nrules: [", dir, "c.yaml")
	err := wantBroken(t, source, "a")
	var problems *filerules.Error
	var invalid *rules.ValidationError
	if !errors.As(err, &problems) || len(problems.Problems) != 2 || !errors.As(err, &invalid) || invalid.RuleSetID != "b" {
		t.Errorf("the error is\n%v\nwant the problems of both files", err)
	}
	if p := problems.Problems[0]; p.File != filepath.Join(dir, "b.yaml") || p.Line != 5 || p.Column != 20 || p.Place != "rules[0].bands[0].capacity" {
		t.Errorf("the problem is %+v", p)
	}
	if _, err := source.IDs(t.Context()); !errors.As(err, &problems) {
		t.Errorf("IDs says %v", err)
	}

	write(t, ruleSet("b", 2), dir, "b.yaml")
	do(t, os.Remove(filepath.Join(dir, "c.yaml")))
	wantCapacity(t, source, "a", 2)
	if after := head(t, source, "a"); after == before {
		t.Errorf("the revision is %d still", after.Revision)
	}
}

// A rule set id in two files is an error that names both positions.
func TestLoad_DuplicateID(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	write(t, "# moved\n"+ruleSet("a", 1), dir, "b.yaml")
	source := open(t, dir, filerules.Config{})
	err := wantBroken(t, source, "a")
	var invalid *rules.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want a ValidationError", err)
	}
	for _, part := range []string{filepath.Join(dir, "a.yaml") + ":", filepath.Join(dir, "b.yaml") + ":", `rule set "a"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s:\n%v", part, err)
		}
	}
	// Rules of two rule sets may have the same id.
	write(t, "id: b\nrules:\n  - id: a-rule\n    bands: [{capacity: 1, refill: 1s}]\n", dir, "b.yaml")
	if v, err := source.Load(t.Context(), "b"); err != nil || v.RuleSet.Len() != 1 {
		t.Errorf("Load: %v, %v", v, err)
	}
}

// A rule set that is removed from its file is deleted.
func TestLoad_DeletedRuleSet(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	write(t, ruleSet("b", 1), dir, "b.yaml")
	source := open(t, dir, filerules.Config{})
	before := head(t, source, "a")

	do(t, os.Remove(filepath.Join(dir, "a.yaml")))
	want := rules.Head{Revision: before.Revision, Deleted: true}
	if got := head(t, source, "a"); got != want {
		t.Errorf("the head is %+v, want %+v", got, want)
	}
	if _, err := source.Load(t.Context(), "a"); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("Load: %v, want ErrNotFound", err)
	}
	// It is remembered while other files change and are invalid.
	write(t, ruleSet("b", -1), dir, "b.yaml")
	wantBroken(t, source, "b")
	write(t, ruleSet("b", 2), dir, "b.yaml")
	if got := head(t, source, "a"); got != want {
		t.Errorf("later the head is %+v, want %+v", got, want)
	}
	write(t, ruleSet("a", 1), dir, "a.yaml")
	if got := head(t, source, "a"); got != before {
		t.Errorf("back again the head is %+v, want %+v", got, before)
	}
	if heads, err := source.Revisions(t.Context(), []string{"never", ""}); err != nil || len(heads) != 0 {
		t.Errorf("unknown ids: %v, %v", heads, err)
	}
}

// Missing, empty and unreadable files are errors, not deletions.
func TestLoad_LostFiles(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, dir string){
		"the folder is gone":     func(t *testing.T, dir string) { do(t, os.RemoveAll(dir)) },
		"the folder is empty":    func(t *testing.T, dir string) { do(t, os.Remove(filepath.Join(dir, "a.yaml"))) },
		"the file is empty":      func(t *testing.T, dir string) { write(t, "", dir, "a.yaml") },
		"the file is a comment":  func(t *testing.T, dir string) { write(t, "# later\n", dir, "a.yaml") },
		"the file is cut":        func(t *testing.T, dir string) { write(t, "id: a\n", dir, "a.yaml") },
		"a link leads nowhere":   func(t *testing.T, dir string) { link(t, "nowhere/a.yaml", dir, "a.yaml") },
		"a link goes in circles": func(t *testing.T, dir string) { link(t, "a.yaml", dir, "a.yaml") },
		"the file is a device":   func(t *testing.T, dir string) { link(t, os.DevNull, dir, "a.yaml") },
		"the file is too long": func(t *testing.T, dir string) {
			write(t, ruleSet("a", 1)+strings.Repeat("#", 16<<20), dir, "a.yaml")
		},
		"there are too many files": func(t *testing.T, dir string) {
			for i := range 1_000 {
				write(t, "", dir, fmt.Sprintf("%d.json", i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			dir := filepath.Join(t.TempDir(), "rules")
			do(t, os.Mkdir(dir, 0o700))
			write(t, ruleSet("a", 1), dir, "a.yaml")
			source := open(t, dir, filerules.Config{})
			before := head(t, source, "a")
			happen(t, dir)
			for range 3 {
				wantBroken(t, source, "a")
			}
			do(t, os.RemoveAll(dir))
			do(t, os.Mkdir(dir, 0o700))
			write(t, ruleSet("a", 1), dir, "a.yaml")
			if got := head(t, source, "a"); got != before {
				t.Errorf("back again the head is %+v, want %+v", got, before)
			}
		})
	}
	// An explicit empty list is a deletion.
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, ruleSet("a", 1), file)
	source := open(t, file, filerules.Config{})
	load(t, source, "a")
	write(t, "ruleSets: []\n", file)
	if !head(t, source, "a").Deleted {
		t.Error("an empty list of rule sets is not a deletion")
	}
}

// link replaces a file by a link.
func link(t testing.TB, target string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	do(t, os.Symlink(target, name+".link"))
	do(t, os.Rename(name+".link", name))
}

// A source can be opened before its files exist.
func TestOpen_MissingPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules")
	source := open(t, dir, filerules.Config{})
	wantBroken(t, source, "a")
	do(t, os.Mkdir(dir, 0o700))
	if heads, err := source.Revisions(t.Context(), []string{"a"}); err != nil || len(heads) != 0 {
		t.Errorf("a folder that never had a file: %v, %v", heads, err)
	}
	write(t, ruleSet("a", 1), dir, "a.yaml")
	wantCapacity(t, source, "a", 1)
}

// Open rejects an invalid config.
func TestOpen_InvalidConfig(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		config filerules.Config
	}{
		"no path":             {"", filerules.Config{}},
		"a negative interval": {"x", filerules.Config{Interval: -1}},
		"a negative settle":   {"x", filerules.Config{Settle: -1}},
	} {
		if _, err := filerules.Open(c.path, c.config); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Waiting for the files ends with the context.
func TestLoad_ContextEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, ruleSet("a", 1), file)
	source := open(t, file, filerules.Config{Settle: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	done := make(chan error, 2)
	for range 2 { // one waits for the file, the other for the first
		go func() {
			_, err := source.Load(ctx, "a")
			done <- err
		}()
	}
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Load: %v, want the error of the context", err)
			}
		case <-time.After(patience):
			t.Fatal("Load does not end with its context")
		}
	}
}
