package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// Text written by others cannot control the terminal.
func TestRender_ControlCharacters(t *testing.T) {
	const evil = "a\x1b[31m\u009b2J\u202e\x7f\r\nb"
	for _, format := range []string{asTable, asJSON, asYAML} {
		var out strings.Builder
		output := outputFlag{formatFlag{format: format}}
		list := table{columns: []string{"TEXT", "MORE"}}
		list.add(evil, strings.Repeat("x", 100))
		if err := output.write(&out, []any{map[string]string{evil: evil}}, list.write); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x7f\r") || format == asTable && (strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), "  b  ") || !strings.Contains(out.String(), "xxx…\n")) {
			t.Errorf("%s: %q", format, out.String())
		}
	}
	conflict := &admin.Conflict{Author: evil, Comment: evil}
	if said := describeConflict(io.Discard, "limits", conflict); strings.ContainsAny(said, "\x1b\u009b\u202e\x7f\r") {
		t.Errorf("%q", said)
	}
}

// Colours are for terminals, unless they are switched off.
func TestPainter_Terminals(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if text := painter(&strings.Builder{})(red, "x"); text != "x" {
		t.Errorf("%q", text)
	}
	if text := painter(screen{})(red, "x"); text != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", text)
	}
	if text := diffPainter(screen{})(rules.DiffAdded, "x"); text != "\x1b[32mx\x1b[0m" {
		t.Errorf("%q", text)
	}
	for variable, value := range map[string]string{"TERM": "dumb", "NO_COLOR": "1"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			if text := painter(screen{})(red, "x"); text != "x" {
				t.Errorf("%q", text)
			}
		})
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) {
		t.Error("/dev/null is not a terminal")
	}
}

// screen is a terminal.
type screen struct{}

func (screen) IsTerminal() bool { return true }

func (screen) Write(b []byte) (int, error) { return len(b), nil }
