package envoyrules_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, _, err := envoyrules.Parse("a.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Refusals name file, line and column, as in the golden files.
func TestParse_Refused(t *testing.T) {
	files, err := filepath.Glob("testdata/refused/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = envoyrules.Parse(filepath.ToSlash(file), data)
			var problems *filerules.Error
			var invalid *rules.ValidationError
			if !errors.As(err, &problems) || !errors.As(err, &invalid) {
				t.Fatalf("error %v, want an Error that reaches a ValidationError", err)
			}
			golden := file + ".golden"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil || err.Error()+"\n" != string(want) {
				t.Errorf("says\n%s\nwant\n%s (%v)", err, want, readErr)
			}
		})
	}
}

// A replaces names limits of the domain, and becomes the ids of their rules.
func TestParse_Replaces(t *testing.T) {
	data, err := os.ReadFile("testdata/replaces.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, notes, err := envoyrules.Parse("replaces.yaml", data)
	if err != nil || set.Len() != 2 || len(notes) != 1 || notes[0].Line != 13 {
		t.Fatalf("%v rules, %v, %v", set, notes, err)
	}
	for r := range set.Rules() {
		if want := []string{"category"}; r.ID != "category" && !slices.Equal(r.Replaces, want) {
			t.Errorf("%s replaces %v, want %v", r.ID, r.Replaces, want)
		}
	}
}

// Files that take much to convert are refused or converted in a bounded time.
func TestParse_Hostile(t *testing.T) {
	nested := func(n int) string {
		var b strings.Builder
		b.WriteString("domain: a\n")
		for i := range n {
			b.WriteString(strings.Repeat(" ", 2*i) + "descriptors:\n" + strings.Repeat(" ", 2*i) + "- key: a\n")
		}
		return b.String()
	}
	siblings := func(n int, value func(i int) string) string {
		var b strings.Builder
		b.WriteString("domain: a\ndescriptors:\n")
		for i := range n {
			b.WriteString("- {key: a, value: \"" + value(i) + "\", rate_limit: {unit: day, requests_per_unit: 1}}\n")
		}
		return b.String()
	}
	number := func(i int) string { return strings.Repeat("0", 5-len(itoa(i))) + itoa(i) }
	for name, c := range map[string]struct{ text, says string }{
		"deeper than descriptors are": {nested(17), "nested deeper than 16 levels"},
		"deeper than YAML may be":     {nested(200), "nested deeper than 64 levels"},
		"many descriptors":            {siblings(20_001, number), "more than 20000 descriptors"},
		"many rules":                  {siblings(10_001, number), "must be at most 10000"},
		"wildcards that except all before them": {
			siblings(1_000, func(i int) string { return strings.Repeat("x", 1_000-i) + "*" }), "more than 100000 values under except",
		},
		"values that all rules except": {
			siblings(3_000, number) + "- key: a\n  descriptors:\n" + nestedLimits(50), "more than 100000 values under except",
		},
		"aliases": {"domain: &a a\ndescriptors: [*a, *a, *a]\n", "anchors are not supported"},
	} {
		start := time.Now()
		_, _, err := envoyrules.Parse("a.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Parse says %v, want %q", name, err, c.says)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}
