package figure

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A report records its figures in the file that FACTS_FILE names, which keeps its other facts in order.
func TestReport_Facts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "facts.json")
	t.Setenv("FACTS_FILE", path)
	var out strings.Builder
	r := NewReport(&out)
	r.AtMost("size", 193.254, 200, " B")
	r.AtLeast("ratio", 1.5, 1, "×")
	r.AtMost("size", 241_310, 300_000, " B")
	r.Verdict("not a number", "never", "soon", true)
	got, err := Facts(path)
	want := map[string]Fact{"size": {241_000, "B", Today()}, "ratio": {1.5, "×", Today()}}
	if err != nil || !maps.Equal(got, want) || r.ExitCode() != 0 {
		t.Errorf("recorded %v, want %v: %v\n%s", got, want, err, &out)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Index(string(text), "ratio") > strings.Index(string(text), "size") {
		t.Errorf("facts are not sorted (%v):\n%s", err, text)
	}
}

// A file that is not one of facts is not overwritten, and the report fails.
func TestReport_FactsUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "facts.json")
	if err := os.WriteFile(path, []byte("no facts"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FACTS_FILE", path)
	r := NewReport(&strings.Builder{})
	r.AtMost("size", 1, 2, " B")
	if text, err := os.ReadFile(path); string(text) != "no facts" || r.ExitCode() != 1 {
		t.Errorf("exit code %d, the file has %q: %v", r.ExitCode(), text, err)
	}
}
