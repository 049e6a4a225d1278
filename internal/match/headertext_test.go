package match_test

import (
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/match"
)

// A value that is not UTF-8 is read as Latin-1, and every other stays as it is.
func TestHeaderText(t *testing.T) {
	for sent, want := range map[string]string{
		"": "", "gold": "gold", "m\xc3\xbcller": "müller", "m\xfcller": "müller", "\xff": "ÿ", "\xc3": "Ã", "a\x00\xe9": "a\x00é",
	} {
		if got := match.HeaderText(sent); got != want {
			t.Errorf("HeaderText(%q) = %q, want %q", sent, got, want)
		}
	}
	err := quick.Check(func(raw []byte) bool {
		text := match.HeaderText(string(raw))
		return utf8.ValidString(text) && match.HeaderText(text) == text
	}, nil)
	if err != nil {
		t.Error(err)
	}
}
