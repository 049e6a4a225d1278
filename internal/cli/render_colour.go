package cli

import (
	"io"
	"os"

	"github.com/fluxgate/fluxgate/rules"
	"golang.org/x/term"
)

// colour is the escape sequence of a terminal.
type colour string

const (
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
)

// painter colours a text on a terminal that can, unless NO_COLOR is set.
func painter(out io.Writer) func(colour, string) string {
	plain := !isTerminal(out) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return func(c colour, text string) string {
		if plain || c == "" {
			return text
		}
		return string(c) + text + "\x1b[0m"
	}
}

// diffPainter colours the output of [rules.WriteDiff].
func diffPainter(out io.Writer) func(rules.DiffKind, string) string {
	colours := map[rules.DiffKind]colour{rules.DiffAdded: green, rules.DiffRemoved: red, rules.DiffChanged: yellow}
	paint := painter(out)
	return func(kind rules.DiffKind, text string) string { return paint(colours[kind], text) }
}

// isTerminal reports whether a stream is a terminal. A stream that is not a file
// may implement IsTerminal.
func isTerminal(stream any) bool {
	if s, ok := stream.(interface{ IsTerminal() bool }); ok {
		return s.IsTerminal()
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
