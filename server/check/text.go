package check

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unambiguous reports whether a body says what it means: encoding/json replaces
// what is not UTF-8, and halves of surrogate pairs, all with the same
// character, and two callers would become one.
func unambiguous(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return true
		}
		body = body[i:]
		if first := escaped(body); !utf16.IsSurrogate(first) {
			body = body[min(2, len(body)):]
			continue
		} else if utf16.DecodeRune(first, escaped(body[6:])) == utf8.RuneError {
			return false
		}
		body = body[12:]
	}
}

// escaped is the \uXXXX that a text begins with, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(r)
}
