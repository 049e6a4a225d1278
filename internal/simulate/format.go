package simulate

import (
	"strconv"
	"strings"
)

// Format is the format of a log.
type Format string

// The formats.
const (
	// Auto detects one of the others by the first line that can be parsed.
	Auto Format = "auto"
	// Combined is the combined or common log format of nginx and Apache.
	Combined Format = "combined"
	// JSON has an object on every line.
	JSON Format = "json"
)

// Formats are all formats.
var Formats = []Format{Auto, Combined, JSON}

// formatter parses the lines of a source.
type formatter struct {
	format Format // Auto until it is known
	fields *jsonFields
	// headers is whether any rule looks at headers.
	headers bool
}

// parse parses a line into the entry, which may refer to the line. While the format is not
// known, the first character of the line says which it could be, and a line that can be
// parsed decides.
func (f *formatter) parse(line string, e *entry) (err error) {
	*e = entry{}
	if line == "" {
		return errEmpty
	}
	format := f.format
	if format == Auto {
		if format = Combined; line[0] == '{' {
			format = JSON
		}
	}
	if format == JSON {
		err = f.fields.parse(line, e)
	} else {
		err = parseCombined(line, e, f.headers)
	}
	if err == nil {
		f.format = format
	}
	return err
}

// quoted cuts a quoted field off the beginning of a text. A backslash escapes the
// character after it.
func quoted(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", errFields
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], s[i+1:], nil
		}
	}
	return "", "", errQuote
}

// unescape resolves the escapes of nginx (\x22) and Apache (\" \\ \t \xhh). What is no
// escape stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for {
		before, _, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		c, multibyte, rest, err := strconv.UnquoteChar(s[len(before):], '"')
		switch {
		case err != nil:
			b.WriteByte('\\')
			rest = s[len(before)+1:]
		case multibyte:
			b.WriteRune(c)
		default:
			b.WriteByte(byte(c))
		}
		s = rest
	}
}
