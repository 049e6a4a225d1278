package yamltree

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// onlyJSON matches what our YAML does not have in strings: an escaped slash, pairs of surrogates,
// and characters that it has as escapes only. It matches escaped backslashes too, since the next
// character is not part of an escape.
var onlyJSON = regexp.MustCompile(
	`\\\\|\\/|\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|[\x7f-\x9f\x{2028}\x{2029}\x{feff}\x{fffe}\x{ffff}]`)

// jsonAsYAML returns JSON with escapes that YAML has too, or why the text is not JSON. Columns
// after such an escape differ.
func jsonAsYAML(text string) (string, *Flaw) {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal([]byte(text), new(json.RawMessage)), &syntax) {
		return "", jsonFlaw(text, syntax)
	}
	return onlyJSON.ReplaceAllStringFunc(text, func(part string) string {
		var decoded string
		if err := json.Unmarshal([]byte(`"`+part+`"`), &decoded); err != nil || part == `\\` {
			return part
		}
		r, _ := utf8.DecodeRuneInString(decoded)
		return fmt.Sprintf(`\U%08x`, r)
	}), nil
}

func jsonFlaw(text string, err *json.SyntaxError) *Flaw {
	before := text[:max(0, err.Offset-1)] // the offset is after the wrong character
	line := strings.LastIndexByte(before, '\n') + 1
	at := Position{Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[line:]) + 1}
	return &Flaw{at, err.Error()}
}
