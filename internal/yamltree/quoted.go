package yamltree

import (
	"regexp"
	"strconv"
	"strings"
)

// plainString matches strings that YAML reads as such without quotes, also in braces and
// brackets, except for reserved words. Periods are among them.
var plainString = regexp.MustCompile(`^([0-9]+([dhms]|[mun]s)|[A-Za-z/][A-Za-z0-9_./*@:+-]*( [A-Za-z0-9_./*@+-]+)*)$`)

// Quoted returns a string as YAML, quoted if necessary. The result has no control
// characters. A key of more than 1,024 characters needs a ? before it.
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
