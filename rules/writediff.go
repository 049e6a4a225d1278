package rules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// maxShown is how many characters of one thing people get to see.
const maxShown = 1_000

// WriteDiff writes a diff as people read it: a line for each rule, and below it
// what differs, or what an added rule says. Long values are cut, and say so.
//
// Paint, if there is one, returns a piece of text as it is to be shown, such as
// in the color of its kind: the line of a rule, what a field said and what it
// says. Everything it gets is fit for a terminal, wherever the diff came from.
func WriteDiff(w io.Writer, diffs []RuleDiff, paint func(kind DiffKind, s string) string) error {
	if paint == nil {
		paint = func(_ DiffKind, s string) string { return s }
	}
	out := bufio.NewWriter(w)
	for _, d := range diffs {
		line := sign(d.Change) + " " + shown([]byte(d.Rule))
		_, _ = fmt.Fprintln(out, paint(d.Change, line)) // Flush has the error
		if d.Change == DiffRemoved {
			continue
		}
		for _, f := range d.Fields {
			before, after := "", ""
			if f.Before != nil {
				before = paint(DiffRemoved, value(f.Before))
			}
			if f.After != nil {
				after = paint(DiffAdded, value(f.After))
			}
			_, _ = fmt.Fprintf(out, "    %s: %s\n", shown([]byte(f.Path)), change(d.Change, f.Path, before, after))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing a diff: %w", err)
	}
	return nil
}

func sign(kind DiffKind) string {
	switch kind {
	case DiffAdded:
		return "+"
	case DiffRemoved:
		return "-"
	}
	return "~"
}

// change is both sides of a field, or the one that there can be.
func change(kind DiffKind, path, before, after string) string {
	if kind == DiffAdded || strings.HasSuffix(path, "[+]") || strings.HasSuffix(path, "[-]") {
		return before + after
	}
	const unset = "unset" // no JSON looks like it
	if before == "" {
		before = unset
	}
	if after == "" {
		after = unset
	}
	return before + " → " + after
}

// value is JSON on one line.
func value(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return shown(v)
	}
	return shown(b.Bytes())
}

// shown is text as people get to see it.
func shown(text []byte) string {
	left := utf8.RuneCount(text) - maxShown
	if left <= 0 {
		return printable.JSON(text, "")
	}
	rest := text
	for range maxShown {
		_, n := utf8.DecodeRune(rest)
		rest = rest[n:]
	}
	return fmt.Sprintf("%s… and %d characters more", printable.JSON(text[:len(text)-len(rest)], ""), left)
}
