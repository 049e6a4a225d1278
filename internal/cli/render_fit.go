package cli

import (
	"strings"
	"unicode"
)

// cells is how many columns of a terminal a printable text takes, at most.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += runeCells(r)
	}
	return n
}

// runeCells is 2 for characters that some terminals show wide.
func runeCells(r rune) int {
	symbol := r >= 0x2300 && r < 0x2400 || r >= 0x2600 && r < 0x27c0 || r >= 0x2b00 && r < 0x3040 ||
		r >= 0xfe30 && r < 0xfff0 || r >= 0x1f000 && r < 0x20000
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case symbol || unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Yi, unicode.Bopomofo):
		return 2
	}
	return 1
}

// cut shortens a text to a width; … replaces the rest.
func cut(text string, width int) string {
	if cells(text) <= width {
		return text
	}
	n := 0
	for i, r := range text {
		if n += runeCells(r); n > width-1 {
			return text[:i] + strings.Repeat("…", min(width, 1))
		}
	}
	return text
}

// cutStart is cut for texts whose end matters most.
func cutStart(text string, width int) string {
	if cells(text) <= width {
		return text
	}
	n := cells(text)
	for i, r := range text {
		if n <= width-1 && runeCells(r) > 0 { // … must not get the accent of what was cut
			return "…" + text[i:]
		}
		n -= runeCells(r)
	}
	return strings.Repeat("…", min(width, 1))
}

// flow puts items into as many lines as they need.
func flow(width int, items ...string) []string {
	var lines []string
	for _, item := range items {
		last := len(lines) - 1
		if last >= 0 && cells(lines[last])+2+cells(item) <= width {
			lines[last] += "  " + item
			continue
		}
		lines = append(lines, cut(item, width))
	}
	return lines
}
