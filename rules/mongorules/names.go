package mongorules

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// encodeNumber is a JSON number as an int64 or a double, if one of them has
// exactly that decimal value, else as a string.
func encodeNumber(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	const most = 64 // characters; no double needs more, and exponents stay small
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || len(s) > most {
		return s
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		if strings.ContainsAny(mantissa, "123456789") {
			return s
		}
		return f
	}
	written, ok := new(big.Rat).SetString(s)
	shortest, ok2 := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if ok && ok2 && (written.Cmp(shortest) == 0 || written.Cmp(new(big.Rat).SetFloat64(f)) == 0) {
		return f
	}
	return s
}

// mongoName is a field name that every MongoDB version accepts: one that is
// empty, has a dot or begins with a dollar sign is percent-encoded.
func mongoName(name string) string {
	if name == "" || name == "%" {
		return "%" + strings.Repeat("25", len(name)) // % and %25
	}
	var b strings.Builder
	for i := range len(name) {
		_, escaped := escapes[name[i:min(i+3, len(name))]]
		switch c := name[i]; {
		case c == '.', c == 0, c == '$' && i == 0, c == '%' && escaped:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// plainName undoes mongoName. Other percent signs stay.
func plainName(name string) string {
	if name == "%" {
		return ""
	}
	if !strings.Contains(name, "%") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c, ok := escapes[name[i:min(i+3, len(name))]]; ok {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

var escapes = map[string]byte{"%2E": '.', "%24": '$', "%25": '%', "%00": 0}
