package filerules_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

const overrideColumns = "ruleSet,rule,userId,times\n"

// timesOf returns the overrides of rule set a, by user.
func timesOf(t testing.TB, source rules.Overrides) string {
	t.Helper()
	found := map[string]string{} // which is printed by key
	for after, more := "", true; more; {
		page, err := source.ListOverrides(t.Context(), "a", after, 1)
		do(t, err)
		for _, o := range page.Overrides {
			found[o.Identity["userId"]] = o.Times.String()
			if same, err := source.Override(t.Context(), "a", o.ID()); err != nil || same.Times != o.Times {
				t.Errorf("override %s is %+v (%v)", o.ID(), same, err)
			}
		}
		after, more = page.Next, page.Next != ""
	}
	return fmt.Sprint(found)
}

// Changes of the file are reported and have revisions. A file with a problem keeps what was
// there and says so.
func TestOverrides(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "overrides.csv")
	write(t, ruleSet("a", 1), dir, "a.yaml")
	write(t, overrideColumns+"a,a-rule,alice,2\na,a-rule,bob,3\nother,x,carol,4\n", file)
	config := atOnce
	config.Overrides = file
	source := open(t, filepath.Join(dir, "a.yaml"), config)
	reported := watching(t, source)
	revision := func() int64 {
		t.Helper()
		revisions, err := source.OverrideRevisions(t.Context(), []string{"a", "unknown"})
		do(t, err)
		return revisions["a"]
	}
	wants := func(want string) func() bool { return func() bool { return timesOf(t, source) == want } }
	if revision() != 1 || !wants("map[alice:2 bob:3]")() {
		t.Fatalf("at first: revision %d, %s", revision(), timesOf(t, source))
	}
	replace(t, overrideColumns+"a,a-rule,alice,2\na,a-rule,dora,5\n", file)
	await(t, reported, wants("map[alice:2 dora:5]"))
	if _, err := source.OverrideChanges(t.Context(), "a", 1, 0); !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes since the former content: %v, want that all overrides are to be read", err)
	}
	if page, err := source.OverrideChanges(t.Context(), "a", 2, 0); err != nil || page.Revision != 2 || len(page.Overrides) != 0 {
		t.Errorf("the changes since the current content: %+v (%v), want none", page, err)
	}
	if page, err := source.ListOverrides(t.Context(), "other", "", 0); err != nil || len(page.Overrides) != 0 {
		t.Errorf("the other rule set has %+v (%v)", page, err)
	}

	broken := func() error { _, err := source.OverrideRevisions(t.Context(), []string{"a"}); return err }
	for content, want := range map[string]string{
		overrideColumns + "a,a-rule,alice,9\na,a-rule,eve,secret\n": "line 3, column times",
		"": "line 1",
	} {
		replace(t, content, file)
		await(t, reported, func() bool { return broken() != nil && strings.Contains(broken().Error(), want) })
		if !wants("map[alice:2 dora:5]")() || strings.Contains(broken().Error(), "secret") || !strings.Contains(broken().Error(), file) {
			t.Errorf("with a problem: %s, %v", timesOf(t, source), broken())
		}
	}
	do(t, os.Remove(file))
	await(t, reported, func() bool { return broken() != nil && strings.Contains(broken().Error(), "no such file") })
	if !wants("map[alice:2 dora:5]")() {
		t.Errorf("without the file: %s", timesOf(t, source))
	}
	if _, err := source.Load(t.Context(), "a"); err != nil {
		t.Errorf("the rules cannot be read because of the overrides: %v", err)
	}
	write(t, overrideColumns, file)
	await(t, reported, wants("map[]"))
	if revision() != 3 {
		t.Errorf("after all were deleted the revision is %d", revision())
	}
}

// Without a file of overrides there are none.
func TestOverrides_None(t *testing.T) {
	dir := t.TempDir()
	write(t, ruleSet("a", 1), dir, "a.yaml")
	source := open(t, dir, filerules.Config{})
	revisions, err := source.OverrideRevisions(t.Context(), []string{"a"})
	if err != nil || len(revisions) != 0 || timesOf(t, source) != "map[]" {
		t.Error(revisions, err)
	}
}

// A file can have as many overrides as a rule set, and all of them can be replaced.
func TestOverrides_Most_NoRace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "overrides.csv")
	write(t, ruleSet("a", 1), dir, "a.yaml")
	source := open(t, dir, filerules.Config{Overrides: file})
	for round, want := range []int64{1, 2} {
		var content strings.Builder
		content.WriteString(overrideColumns)
		for i := range rules.MaxOverrides {
			fmt.Fprintf(&content, "a,a-rule,user-%d-%d,2\n", round, i)
		}
		replace(t, content.String(), file)
		if revisions, err := source.OverrideRevisions(t.Context(), []string{"a"}); err != nil || revisions["a"] != want {
			t.Errorf("revision %d (%v), want %d", revisions["a"], err, want)
		}
	}
}
