// Package printable makes text of unknown origin safe for logs and terminals:
// nothing in it is a control character or changes how the rest is shown.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Line is a text as one line of at most so many characters, with … for what is cut
// off. Each space becomes a blank, and what cannot be shown becomes U+FFFD.
func Line(text string, most int) string {
	var b strings.Builder
	length := 0
	for _, r := range text {
		if length == most {
			b.WriteRune('…')
			break
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsGraphic(r):
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		length++
	}
	return b.String()
}

// JSON is a JSON text in which what cannot be shown is escaped. Characters of
// keep stay as they are.
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
