package clientip

import (
	"strings"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// forwardedFor is the value of the one parameter "for" in an element of the
// header Forwarded, such as
//
//	for="[2001:db8::17]:4711";proto=https
//
// An element that is malformed anywhere, or that has no such parameter, or
// two, has none. Values that would need quotes for their colons and brackets
// are read without them too: many proxies leave them out.
func forwardedFor(element string) (value string, ok bool) {
	for {
		name, v, rest, fine := cutParameter(element)
		if !fine {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if ok {
				return "", false
			}
			value, ok = v, true
		}
		if rest == "" {
			return value, ok
		}
		element = rest[len(";"):]
	}
}

// cutParameter cuts "name=value" off the front of an element. The rest is
// empty or begins with a semicolon. Between two semicolons there may be
// nothing, which is a parameter without a name.
func cutParameter(element string) (name, value, rest string, ok bool) {
	element = trim(element)
	if element == "" || element[0] == ';' {
		return "", "", element, true
	}
	name, after, found := strings.Cut(element, "=")
	if !found || !syntax.IsToken(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(after, `"`) {
		if value, rest, ok = cutQuoted(after); !ok {
			return "", "", "", false
		}
		rest = trim(rest)
		return name, value, rest, rest == "" || rest[0] == ';'
	}
	end := strings.IndexByte(after, ';')
	if end < 0 {
		end = len(after)
	}
	value = strings.TrimRight(after[:end], " \t")
	return name, value, after[end:], value != "" && !strings.ContainsAny(value, "\" \t")
}

// cutQuoted cuts a quoted string off the front of s and takes its quotes and
// backslashes away.
func cutQuoted(s string) (value, rest string, ok bool) {
	escaped := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			if value = s[1:i]; escaped {
				value = unescape(value)
			}
			return value, s[i+1:], true
		}
	}
	return "", "", false
}

func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++ // never past the end: cutQuoted has seen what it escapes
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
