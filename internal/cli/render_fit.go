package cli

import (
	"slices"
	"strings"
	"unicode"

	"github.com/fluxgate/fluxgate/internal/printable"
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
	symbol := r >= 0x2300 && r < 0x2400 || r >= 0x2600 && r < 0x27c0 || r >= 0x2b00 && r < 0x3040 || r >= 0xfe30 && r < 0xfff0 || r >= 0x1f000 && r < 0x20000
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

// fitTable is a table for a given width: its texts are cut, and then its last
// columns are left out.
type fitTable struct {
	columns []fitColumn
	rows    [][]string
}

// fitColumn is a column of numbers, unless cut says how to shorten its texts.
type fitColumn struct {
	title string
	cut   func(text string, width int) string
}

// pad makes a text exactly as wide: numbers to the right, texts to the left.
func (c *fitColumn) pad(text string, width int) string {
	if c.cut == nil {
		return strings.Repeat(" ", max(0, width-cells(text))) + text
	}
	text = c.cut(text, width)
	return text + strings.Repeat(" ", max(0, width-cells(text)))
}

// minText is how far a text is cut before a column is left out.
const minText = 20

// add adds a row. Text written by others cannot leave its cell.
func (t *fitTable) add(row ...string) {
	for i := range row {
		row[i] = printable.Line(row[i], 2*maxCell)
	}
	t.rows = append(t.rows, row)
}

func (t *fitTable) lines(width int) []string {
	widths := t.widths(width)
	var titles []string
	for _, c := range t.columns {
		titles = append(titles, c.title)
	}
	var lines []string
	for _, row := range slices.Concat([][]string{titles}, t.rows) {
		var b strings.Builder
		for i, most := range widths {
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(t.columns[i].pad(row[i], most))
		}
		lines = append(lines, cut(strings.TrimRight(b.String(), " "), width))
	}
	return lines
}

// widths is the width of each column that is shown.
func (t *fitTable) widths(width int) []int {
	var widths []int
	total, texts := -2, 0
	for i, c := range t.columns {
		most := cells(c.title)
		for _, row := range t.rows {
			most = max(most, cells(row[i]))
		}
		if c.cut != nil {
			texts++
		}
		widths = append(widths, most)
		total += 2 + most
	}
	for total > width {
		widest, last := -1, len(widths)-1
		for i, w := range widths {
			if t.columns[i].cut != nil && w > minText && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		switch {
		case widest >= 0:
			widths[widest]--
			total--
		case last >= texts:
			total -= 2 + widths[last]
			widths = widths[:last]
		default:
			return widths
		}
	}
	return widths
}
