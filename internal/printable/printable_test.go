package printable_test

import (
	"encoding/json"
	"testing"
	"unicode"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// A line is truncated and has no control characters.
func TestLine_Cases(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int
		want string
	}{
		{"", 5, ""}, {"é😀", 2, "é😀"}, {"é😀x", 2, "é😀…"}, {"a\r\n\tb\u00a0c", 9, "a   b c"},
		{"\x1b[2J\u009b\u202e\u200b\x7f\xff", 99, "\ufffd[2J\ufffd\ufffd\ufffd\ufffd\ufffd"},
	} {
		if got := printable.Line(c.text, c.max); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

// Escaped JSON is graphic and has the same meaning.
func FuzzJSON(f *testing.F) {
	f.Add("a\x1b\u009b\u202e\U000e0041 é😀\n")
	f.Fuzz(func(t *testing.T, s string) {
		before, _ := json.Marshal(s)
		after := printable.JSON(before, "")
		var was, is string
		if json.Unmarshal(before, &was) != nil || json.Unmarshal([]byte(after), &is) != nil || was != is {
			t.Fatalf("%q became %q", was, is)
		}
		for _, r := range after {
			if !unicode.IsGraphic(r) {
				t.Fatalf("%q has %U", after, r)
			}
		}
	})
}
