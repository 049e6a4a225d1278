package check

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unambiguous reports whether all strings in a body are valid Unicode.
// encoding/json replaces invalid UTF-8 and unpaired surrogates by one character,
// and two callers could become one.
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

// escaped returns the \uXXXX at the start of a text, or -1.
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
