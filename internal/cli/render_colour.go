package cli

import (
	"io"
	"os"

	"github.com/fluxgate/fluxgate/rules"
	"golang.org/x/term"
)

// colour is how a terminal is told one.
type colour string

const (
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
)

// painter colours a text on a terminal that can, unless NO_COLOR is set.
func painter(out io.Writer) func(colour, string) string {
	if !isTerminal(out) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return func(_ colour, text string) string { return text }
	}
	return func(c colour, text string) string {
		if c == "" {
			return text
		}
		return string(c) + text + "\x1b[0m"
	}
}

// diffPainter colours what [rules.WriteDiff] writes.
func diffPainter(out io.Writer) func(rules.DiffKind, string) string {
	colours := map[rules.DiffKind]colour{rules.DiffAdded: green, rules.DiffRemoved: red, rules.DiffChanged: yellow}
	paint := painter(out)
	return func(kind rules.DiffKind, text string) string { return paint(colours[kind], text) }
}

// isTerminal reports whether a person is at the other end of a stream. A
// stream that is no file may say so itself.
func isTerminal(stream any) bool {
	if says, ok := stream.(interface{ IsTerminal() bool }); ok {
		return says.IsTerminal()
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
