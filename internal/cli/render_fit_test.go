package cli

import "testing"

// A text is cut by the columns that it takes, not by its characters.
func TestCut_Cases(t *testing.T) {
	for _, c := range []struct {
		text       string
		width      int
		end, start string
	}{
		{"abc", 3, "abc", "abc"}, {"abcd", 3, "ab…", "…cd"}, {"abcd", 1, "…", "…"}, {"abcd", 0, "…", "…"},
		{"田中太郎", 8, "田中太郎", "田中太郎"}, {"田中太郎", 7, "田中太…", "…中太郎"}, {"田中太郎", 6, "田中…", "…太郎"},
		{"e\u0301e\u0301", 2, "e\u0301e\u0301", "e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…", "…e\u0301"},
	} {
		if end, start := cut(c.text, c.width), cutStart(c.text, c.width); end != c.end || start != c.start {
			t.Errorf("%q in %d: %q and %q, want %q and %q", c.text, c.width, end, start, c.end, c.start)
		}
	}
}
