package yamltree

import (
	"regexp"
	"strconv"
	"strings"
)

// plainString is what YAML reads as a string without quotes, in braces and
// brackets too, but for reserved words and a colon at the end of a word. Periods
// are such.
var plainString = regexp.MustCompile(`^([0-9]+([dhms]|[mun]s)|[A-Za-z/][A-Za-z0-9_./*@:+-]*( [A-Za-z0-9_./*@+-]+)*)$`)

// Quoted is a string as YAML, without quotes if it needs none. Nothing in it is
// a control character. A key of more than 1,024 characters needs a ? before it.
func Quoted(s string) string {
	reserved := false
	switch strings.ToLower(s) { // by any version of YAML
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		reserved = true
	}
	if reserved || strings.Contains(s+" ", ": ") || !plainString.MatchString(s) {
		return strconv.Quote(s)
	}
	return s
}
