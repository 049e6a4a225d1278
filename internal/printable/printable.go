// Package printable makes untrusted text safe for logs and terminals: the result has no
// control characters and none that change how others are shown.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Line returns a text as one line of at most most characters; … replaces the rest. Any
// white space becomes a space, other characters that are not graphic become U+FFFD.
func Line(text string, most int) string {
	return Text(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text), most)
}

// Text is Line for several lines: tabs and newlines are kept.
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

// JSON escapes characters in JSON that are not graphic, except those in keep.
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

// Quote shows an untrusted value in a message, shortened: messages end in
// logs.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
