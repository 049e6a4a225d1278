package yamltree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// readYAML parses the documents of a YAML file with positions. Line ends in the text are
// \n.
func readYAML(text string) ([]*Node, []Flaw) {
	if f := checkText(text); f != nil {
		return nil, []Flaw{*f}
	}
	documents, end, err := parseYAML(text)
	if err != nil {
		return nil, []Flaw{syntaxFlaw(text, end, err)}
	}
	r := yamlReader{text: text, at: Position{Line: 1, Column: 1}}
	var roots []*Node
	for _, d := range documents {
		root, err := r.read(d, 0)
		var f *Flaw
		if errors.As(err, &f) {
			return nil, append(r.flaws, *f)
		}
		if !root.IsNull() {
			roots = append(roots, root)
		}
	}
	return roots, r.flaws
}

// parseYAML returns the documents, and how much of the text the parser has read: after an
// error, not much more than the wrong part.
func parseYAML(text string) (documents []*yaml.Node, end int, err error) {
	input := lineReader(text)
	defer func() {
		end = len(text) - len(input)
		if recover() != nil { // files are untrusted
			err = errors.New("the YAML parser failed")
		}
	}()
	for decoder := yaml.NewDecoder(&input); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return documents, 0, nil
		case err != nil:
			return nil, 0, err
		}
		documents = append(documents, document.Content...)
	}
}

// lineReader is a reader that returns one line at a time.
type lineReader string

func (r *lineReader) Read(p []byte) (int, error) {
	if *r == "" {
		return 0, io.EOF
	}
	n := copy(p, *r)
	if end := bytes.IndexByte(p[:n], '\n'); end >= 0 { // not in all of the text, which may be one line
		n = end + 1
	}
	*r = (*r)[n:]
	return n, nil
}

// checkText rejects characters that the parser does not allow or treats as line ends, and
// too many values, before the parser allocates them.
func checkText(text string) *Flaw {
	at, indicators := Position{Line: 1, Column: 1}, 0
	for i, c := range text {
		switch {
		case c == '\n':
			at = Position{Line: at.Line + 1}
		case c < ' ' && c != '\t', c > '~' && c < 0xa0, c == 0x2028, c == 0x2029, c == 0xfeff, c == 0xfffe, c == 0xffff:
			return &Flaw{at, fmt.Sprintf("the character %U is not allowed", c)}
		case c == '%' && at.Column == 1:
			return &Flaw{at, "directives are not supported"}
		case strings.ContainsRune(`[]{},:?"'|>#`, c), c == '-' && (i+1 == len(text) || strings.IndexByte(" \t\n", text[i+1]) >= 0):
			if indicators++; indicators > MaxValues {
				return tooManyValues(at)
			}
		}
		at.Column++
	}
	return nil
}

// yamlReader converts the parser's nodes, which are in the order of the text.
type yamlReader struct {
	text  string // from at on
	at    Position
	flaws []Flaw
}

func (r *yamlReader) read(from *yaml.Node, depth int) (*Node, error) {
	n := &Node{At: Position{Line: from.Line, Column: from.Column}}
	if err := r.checkNode(from, n.At); err != nil {
		return nil, err
	}
	if from.Kind == yaml.ScalarNode {
		var err error
		n.Value, err = scalar(from, n.At)
		return n, err
	}
	if depth == MaxDepth {
		return nil, tooDeep(n.At)
	}
	if from.Kind == yaml.SequenceNode {
		n.Kind = List
		for _, item := range from.Content {
			value, err := r.read(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, value)
		}
		return n, nil
	}
	n.Kind = Object
	names := map[string]Position{}
	for i := 0; i < len(from.Content); i += 2 {
		f, err := r.key(from.Content[i])
		if err != nil {
			return nil, err
		}
		r.flaws = noteDuplicate(r.flaws, names, f)
		if f.Value, err = r.read(from.Content[i+1], depth+1); err != nil {
			return nil, err
		}
		n.add(f)
	}
	return n, nil
}

func (r *yamlReader) key(from *yaml.Node) (Field, error) {
	f := Field{Name: from.Value, At: Position{Line: from.Line, Column: from.Column}}
	switch {
	case from.Kind == yaml.MappingNode, from.Kind == yaml.SequenceNode, from.Value == "" && from.Style == 0:
		return f, &Flaw{f.At, "keys must be strings"}
	case from.Value == "<<" && from.Style == 0:
		return f, &Flaw{f.At, "<< is not supported: write the fields out"}
	}
	return f, r.checkNode(from, f.At)
}

// checkNode rejects YAML that JSON cannot express, and unquoted strings that are probably
// mistakes: with wrong indentation the parser joins several lines to one string, and
// without a space it takes a key with its colon as a string.
func (r *yamlReader) checkNode(n *yaml.Node, at Position) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return &Flaw{at, noAliases}
	case n.Anchor != "":
		return &Flaw{at, "anchors are not supported: write the value out where it is needed"}
	case n.Style&yaml.TaggedStyle != 0:
		return &Flaw{at, noTags}
	case n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == "":
		return nil // an omitted value has no position
	}
	written := r.from(at)
	switch {
	case strings.HasPrefix(written, "!"):
		return &Flaw{at, noTags}
	case n.Kind != yaml.ScalarNode || n.Style != 0:
		return nil
	case !strings.HasPrefix(written, n.Value):
		return &Flaw{at, "a string of several lines must be in quotes, or is the indentation wrong?"}
	case strings.Contains(n.Value, "\t"):
		return &Flaw{at, "a string with a tab must be in quotes"}
	case strings.HasSuffix(n.Value, ":"):
		return &Flaw{at, "a string that ends in a colon must be in quotes, or is a space missing?"}
	}
	return nil
}

const (
	noAliases = "aliases are not supported: write the value out"
	noTags    = "tags are not supported"
)

// from returns the text from a position on.
func (r *yamlReader) from(at Position) string {
	for r.at.Line < at.Line {
		_, r.text, _ = strings.Cut(r.text, "\n")
		r.at = Position{Line: r.at.Line + 1, Column: 1}
	}
	for ; r.at.Column < at.Column; r.at.Column++ {
		_, size := utf8.DecodeRuneInString(r.text)
		r.text = r.text[size:]
	}
	return r.text
}

// scalar returns a single value as in JSON.
func scalar(n *yaml.Node, at Position) (any, error) {
	if n.Style != 0 {
		return n.Value, nil
	}
	if isNumber(n.Value) {
		return json.Number(n.Value), nil
	}
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		return nil, &Flaw{at, "is a number in a form that JSON does not have: write it in decimal digits, or in quotes if it is a string"}
	}
	return n.Value, nil
}

const (
	// maxReparsed is how many bytes are parsed to find the line of an error.
	maxReparsed = 2 << 20
	// nearLines is how many lines are tried one by one. More distant errors are
	// unclosed quotes and brackets.
	nearLines = 50
)

// syntaxFlaw returns the position of a syntax error that the parser detected at end. The
// parser reports the line of the enclosing block, so search for it: it is the line after
// the longest run of lines that can be parsed.
func syntaxFlaw(text string, end int, err error) Flaw {
	lines := strings.SplitAfter(text[:end], "\n")
	low, high := 0, len(lines) // the first low lines can be parsed, the first high ones cannot
	for tried, parsed := 0, 0; low+1 < high && parsed < maxReparsed; tried++ {
		middle := high - 1
		if tried >= nearLines || parsed > maxReparsed/2 {
			middle = (low + high) / 2
		}
		before := strings.Join(lines[:middle], "")
		if _, _, err := parseYAML(before); err == nil {
			low = middle
		} else {
			high = middle
		}
		parsed += len(before)
	}
	line, _, _ := strings.Cut(lines[high-1], "\n")
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	at := Position{Line: high, Column: len(indent) + 1}
	if strings.Contains(indent, "\t") {
		return Flaw{at, "a tab is not allowed here: indent with spaces"}
	}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(message, "line ") {
		_, message, _ = strings.Cut(message, ": ")
	}
	for problem, plain := range syntaxMessages {
		if strings.HasPrefix(message, problem) {
			message = plain
		}
	}
	return Flaw{at, message}
}

// syntaxMessages explain errors of the parser, by the beginning of its message.
var syntaxMessages = map[string]string{
	"did not find expected key":                   "this does not fit the lines above: is the indentation right, or is a quote missing?",
	"did not find expected '-' indicator":         "this does not fit the list above: is the indentation right?",
	"did not find expected <document start>":      "this does not fit the lines above: is the indentation right?",
	"did not find expected alphabetic or numeric": "a string that begins with * or & must be in quotes",
	"did not find expected ',' or ']'":            "a comma or the closing ] is missing",
	"did not find expected ',' or '}'":            "a comma or the closing } is missing",
	"found unexpected end of stream":              "the closing quote is missing",
	"could not find expected ':'":                 "the colon and a space are missing after this key",
	"mapping values are not allowed":              "a colon is not allowed here: is the indentation right, or a quote missing?",
	"block sequence entries are not allowed":      "a list cannot begin here: write it in the next line, or in brackets",
	"found character that cannot start any token": "a string cannot begin with this character: write it in quotes",
	"found invalid Unicode character escape code": "this escape is not a character: one above U+FFFF is written as \\U and 8 digits",
	"did not find expected node content":          "a value is missing here, or the document ends too early",
	"exceeded max depth":                          tooDeep(Position{}).Message,
	"unknown anchor":                              noAliases,
}
