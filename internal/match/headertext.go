package match

import "unicode/utf8"

// HeaderText returns the value of a header as text: UTF-8, or Latin-1 if it is not UTF-8. HTTP sends
// bytes, and servers of other languages return text. With one reading a rule means the same
// behind all of them.
func HeaderText(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	runes := make([]rune, len(value))
	for i := range len(value) {
		runes[i] = rune(value[i])
	}
	return string(runes)
}
