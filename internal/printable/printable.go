// Package printable makes text of unknown origin safe for logs and terminals:
// nothing in it is a control character or changes how the rest is shown.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Line returns a text as one line of at most so many characters, with … for the
// rest. Spaces of any kind become a blank, other characters that are not graphic
// U+FFFD.
func Line(text string, most int) string {
	return Text(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text), most)
}

// Text is Line for texts of several lines: tabs and line ends stay.
func Text(text string, most int) string {
	var b strings.Builder
	length := 0
	for _, r := range text {
		if length == most {
			b.WriteRune('…')
			break
		}
		if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		length++
	}
	return b.String()
}

// JSON returns a JSON text in which characters that are not graphic are escaped,
// except those in keep.
func JSON(text []byte, keep string) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case unicode.IsGraphic(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			_, _ = fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
