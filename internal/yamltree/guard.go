package yamltree

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// The parser of YAML recurses for every level of a document and for every key
// of a block, and is slow on values that are left out. A file must not end the
// process, so what would is refused before the parser sees it.
const (
	// maxKeys is how many keys a block may have.
	maxKeys = 1_000
	// maxNulls is how many values may be left out in a file.
	maxNulls = 1_000
)

// checkText refuses what would make too many tokens, and characters that YAML
// does not allow.
func checkText(text string) *Flaw {
	at, indicators := Position{1, 1}, 0
	for i, c := range text {
		switch {
		case c == '\n':
			at = Position{at.Line + 1, 0}
		case c < ' ' && c != '\t', c == 0x7f:
			return &Flaw{at, fmt.Sprintf("the character %U is not allowed", c)}
		case strings.ContainsRune(`[]{},:?"'|>#`, c), c == '-' && strings.IndexByte(" \t\n", after(text, i)) >= 0:
			if indicators++; indicators > MaxValues {
				return tooManyValues(at)
			}
		}
		at.Column++
	}
	return nil
}

func after(text string, i int) byte {
	if i+1 < len(text) {
		return text[i+1]
	}
	return '\n'
}

// checkTokens refuses what the parser cannot be trusted with.
func checkTokens(tokens token.Tokens) error {
	var b blocks
	flow, nulls := 0, 0
	for i, t := range tokens {
		at := Position{t.Position.Line, t.Position.Column}
		if what := notRead[t.Type]; what != "" {
			return &Flaw{at, what}
		}
		if isPlain(tokens, i) {
			if wrong := checkPlain(t); wrong != "" {
				return &Flaw{at, wrong}
			}
		}
		column := 0 // of the block that the token belongs to
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			column = at.Column
		case token.MappingValueType:
			if i == 0 {
				continue // the parser says what is wrong
			}
			if column = tokens[i-1].Position.Column; flow > 0 && i > 1 && !opensEntry[tokens[i-2].Type] {
				return &Flaw{at, "a comma or a closing bracket is missing before this key"}
			}
			if tokens[i-1].Position.Line != at.Line {
				return &Flaw{at, "a key and its colon must stand in one line"}
			}
		}
		if column > 0 && leftOut(tokens, i, column) {
			nulls++
		}
		if column > 0 && flow == 0 {
			b.enter(column, t.Type == token.MappingValueType)
		}
		switch {
		case flow+len(b) > MaxDepth:
			return tooDeep(at)
		case len(b) > 0 && b[len(b)-1].keys > maxKeys:
			return &Flaw{at, fmt.Sprintf("more than %d keys in one block", maxKeys)}
		case nulls > maxNulls:
			return &Flaw{at, fmt.Sprintf("more than %d values are left out", maxNulls)}
		}
	}
	return nil
}

var notRead = map[token.Type]string{
	token.AnchorType:     "anchors are not read: write the value out where it is needed",
	token.AliasType:      "aliases are not read: write the value out",
	token.MergeKeyType:   "<< is not read: write the fields out",
	token.TagType:        "tags are not read",
	token.DirectiveType:  "directives are not read",
	token.MappingKeyType: "a key must be a text: ? is not read",
}

// opensEntry is what stands before a key in braces or brackets.
var opensEntry = map[token.Type]bool{
	token.MappingStartType: true, token.SequenceStartType: true, token.CollectEntryType: true,
}

// leftOut reports whether the value of the key or the list item at i is
// missing, as far as one can tell without a parser.
func leftOut(tokens token.Tokens, i, column int) bool {
	if i+1 == len(tokens) {
		return true
	}
	next := tokens[i+1]
	switch next.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		return true
	case token.SequenceEntryType:
		if tokens[i].Type == token.MappingValueType && next.Position.Column == column {
			return false // a list may stand below its key
		}
	}
	return next.Position.Line > tokens[i].Position.Line && next.Position.Column <= column
}

// blocks are the columns at which the blocks begin that are open.
type blocks []struct{ column, keys int }

func (b *blocks) enter(column int, key bool) {
	open := *b
	for len(open) > 0 && open[len(open)-1].column > column {
		open = open[:len(open)-1]
	}
	if len(open) == 0 || open[len(open)-1].column < column {
		open = append(open, struct{ column, keys int }{column: column})
	}
	if key {
		open[len(open)-1].keys++
	}
	*b = open
}

// checkPlain refuses a word without quotes that YAML does not allow, or that
// hardly anybody means. The lexer takes tabs out of the middle of a word, even
// of a number, and makes one text of several values where a comma is missing
// or the indentation is wrong.
func checkPlain(t *token.Token) string {
	written := strings.TrimSpace(t.Origin)
	switch {
	case strings.Contains(written, "\n"):
		return "a text of several lines must stand in quotes, or is the indentation wrong?"
	case written != t.Value:
		return "a text with a tab in it must stand in quotes"
	case strings.Contains(written, ": "), strings.HasSuffix(written, ":"):
		return "a text with a colon and a space must stand in quotes, or is a comma missing?"
	case written != "" && strings.IndexByte("[]{},&*!|>%@`\"'#", written[0]) >= 0:
		return fmt.Sprintf("a text that begins with %c must stand in quotes", written[0])
	}
	return ""
}

// isPlain reports whether a token is a word without quotes.
func isPlain(tokens token.Tokens, i int) bool {
	switch tokens[i].Type {
	case token.StringType: // the lines below a | are one too
		return i == 0 || tokens[i-1].Type != token.LiteralType && tokens[i-1].Type != token.FoldedType
	case token.NullType, token.BoolType, token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
		token.FloatType, token.InfinityType, token.NanType:
		return true
	}
	return false
}

// countWords is how many scalars there are, keys included.
func countWords(tokens token.Tokens) int {
	words := 0
	for i, t := range tokens {
		switch t.Type {
		case token.SingleQuoteType, token.DoubleQuoteType, token.LiteralType, token.FoldedType:
			words++
		default:
			if isPlain(tokens, i) {
				words++
			}
		}
	}
	return words
}
