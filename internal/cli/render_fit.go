package cli

import (
	"unicode"

	"golang.org/x/text/width"
)

// cells is how many columns of a terminal a printable text takes.
func cells(text string) (n int) {
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me): // an accent of the character before it
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// cut shortens a text to a width; … replaces the rest.
func cut(text string, width int) string {
	runes := []rune(text)
	for end := len(runes) - 1; end >= 0 && cells(text) > width; end-- {
		text = string(runes[:end]) + "…"
	}
	return text
}

// cutStart is cut for texts whose end matters most.
func cutStart(text string, width int) string {
	runes := []rune(text)
	for start := 1; start <= len(runes) && cells(text) > width; start++ {
		for start < len(runes) && cells(string(runes[start])) == 0 { // … must not get the accent of what was cut
			start++
		}
		text = "…" + string(runes[start:])
	}
	return text
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
