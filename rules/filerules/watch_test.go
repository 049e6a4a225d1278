package filerules_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// atOnce has an interval longer than any test, so that a change is found by size and time.
var atOnce = filerules.Config{Interval: 24 * time.Hour}

// Every way to change a file is reported.
func TestWatch_EveryChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		folder bool // a replaced folder of a single file is found by polling
	}{
		{name: "an edit in place", change: func(t *testing.T, dir string) { write(t, ruleSet("a", 2), dir, "a.yaml") }},
		{name: "a rename over it", change: func(t *testing.T, dir string) { replace(t, ruleSet("a", 2), dir, "a.yaml") }},
		{name: "the old one renamed away first", change: func(t *testing.T, dir string) {
			do(t, os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "a.yaml~")))
			write(t, ruleSet("a", 2), dir, "a.yaml")
			do(t, os.Remove(filepath.Join(dir, "a.yaml~")))
		}},
		{name: "deleted and made again", change: func(t *testing.T, dir string) {
			do(t, os.Remove(filepath.Join(dir, "a.yaml")))
			write(t, ruleSet("a", 2), dir, "a.yaml")
		}},
		{name: "the folder deleted and made again", folder: true, change: func(t *testing.T, dir string) {
			do(t, os.RemoveAll(dir))
			do(t, os.Mkdir(dir, 0o700))
			write(t, ruleSet("a", 2), dir, "a.yaml")
		}},
		{name: "another folder put in its place", folder: true, change: func(t *testing.T, dir string) {
			do(t, os.Mkdir(dir+".new", 0o700))
			write(t, ruleSet("a", 2), dir+".new", "a.yaml")
			do(t, os.Rename(dir, dir+".old"))
			do(t, os.Rename(dir+".new", dir))
		}},
	} {
		for _, inside := range []string{"", "a.yaml"} {
			if c.folder && inside != "" {
				continue
			}
			t.Run(c.name+" "+inside, func(t *testing.T) {
				t.Parallel() // it mostly waits
				dir := filepath.Join(t.TempDir(), "rules")
				do(t, os.Mkdir(dir, 0o700))
				write(t, ruleSet("a", 1), dir, "a.yaml")
				source := open(t, filepath.Join(dir, inside), atOnce)
				reported := watching(t, source)
				c.change(t, dir)
				awaitCapacity(t, source, reported, 2)
				// The next change is reported too.
				write(t, ruleSet("a", 3), dir, "a.yaml")
				awaitCapacity(t, source, reported, 3)
			})
		}
	}
}

// Added and removed files are reported.
func TestWatch_AddedAndRemovedFiles(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	source := open(t, dir, atOnce)
	reported := watching(t, source)
	is := func(want rules.Head) func() bool {
		return func() bool {
			heads, err := source.Revisions(t.Context(), []string{"b"})
			return err == nil && heads["b"] == want
		}
	}
	file := filepath.Join(dir, "b.yaml")
	write(t, ruleSet("b", 1), file)
	await(t, reported, func() bool { _, err := source.Load(t.Context(), "b"); return err == nil })
	there := head(t, source, "b")
	do(t, os.Rename(file, filepath.Join(dir, "b.off")))
	await(t, reported, is(rules.Head{Revision: there.Revision, Deleted: true}))
	do(t, os.Rename(filepath.Join(dir, "b.off"), file))
	await(t, reported, is(there))

	replace(t, ruleSet("b", -1), file)
	await(t, reported, func() bool { _, err := source.Load(t.Context(), "b"); return err != nil })
	replace(t, ruleSet("b", 1), file) // as before: the report is that it is valid again
	await(t, reported, is(there))
}

// Changes of a mounted ConfigMap are reported. The test changes it as the kubelet does.
func TestWatch_ConfigMap(t *testing.T) {
	for form, path := range map[string]string{"a folder": "", "a file in it": "rules.yaml"} {
		t.Run(form, func(t *testing.T) {
			dir := t.TempDir()
			publish := func(version string, capacity int) {
				do(t, os.Mkdir(filepath.Join(dir, version), 0o700))
				write(t, ruleSet("a", capacity), dir, version, "rules.yaml")
				do(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
				do(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			}
			publish("..2026_01_01_a", 1)
			do(t, os.Symlink(filepath.Join("..data", "rules.yaml"), filepath.Join(dir, "rules.yaml")))
			source := open(t, filepath.Join(dir, path), atOnce)
			reported := watching(t, source)
			wantCapacity(t, source, "a", 1)
			last := "..2026_01_01_a"
			for i, version := range []string{"..2026_01_01_b", "..2026_01_01_c"} {
				publish(version, i+2)
				do(t, os.RemoveAll(filepath.Join(dir, last)))
				awaitCapacity(t, source, reported, i+2)
				last = version
			}
		})
	}
}

// Links to files in other folders are followed.
func TestWatch_LinkedFiles(t *testing.T) {
	t.Parallel() // it mostly waits
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, ruleSet("a", 1), elsewhere, "real.yaml")
	do(t, os.Symlink(filepath.Join(elsewhere, "real.yaml"), filepath.Join(dir, "a.yaml")))
	source := open(t, dir, atOnce)
	reported := watching(t, source)
	write(t, ruleSet("a", 2), elsewhere, "real.yaml")
	awaitCapacity(t, source, reported, 2)

	further := t.TempDir()
	write(t, ruleSet("a", 3), further, "real.yaml")
	link(t, filepath.Join(further, "real.yaml"), dir, "a.yaml")
	awaitCapacity(t, source, reported, 3)
	write(t, ruleSet("a", 4), further, "real.yaml")
	awaitCapacity(t, source, reported, 4)
}

// A link to the folder is followed.
func TestWatch_LinkedFolder(t *testing.T) {
	t.Parallel() // it mostly waits
	dir, first, second := filepath.Join(t.TempDir(), "rules"), t.TempDir(), t.TempDir()
	write(t, ruleSet("a", 1), first, "a.yaml")
	write(t, ruleSet("a", 2), second, "a.yaml")
	do(t, os.Symlink(first, dir))
	source := open(t, dir, atOnce)
	reported := watching(t, source)
	link(t, second, dir)
	awaitCapacity(t, source, reported, 2)
	write(t, ruleSet("a", 3), second, "a.yaml")
	awaitCapacity(t, source, reported, 3)
}

// A write that changes no rule is not reported.
func TestWatch_SameRules(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	reported := watching(t, open(t, dir, atOnce))
	replace(t, "# a comment\n"+ruleSet("a", 1), dir, "a.yaml")
	write(t, "hello", dir, "notes.txt")
	do(t, os.Chtimes(filepath.Join(dir, "a.yaml"), time.Now(), time.Now()))
	replace(t, ruleSet("b", 1), dir, "b.yaml")
	if id := wait(t, reported); id != "b" {
		t.Errorf("reported %q, where b alone has changed", id)
	}
}
