package yamltree

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML reads the documents of a YAML file with their positions. The text
// has no other line ends than \n.
func readYAML(text string) ([]*Node, []Flaw) {
	if f := checkText(text); f != nil {
		return nil, []Flaw{*f}
	}
	r := yamlReader{lines: strings.Split(text, "\n")}
	documents, err := r.tokens(text)
	if err != nil {
		return nil, []Flaw{r.flawOf(err)}
	}
	var roots []*Node
	for _, tokens := range documents {
		root, err := r.document(tokens)
		if err != nil {
			return nil, append(r.flaws, r.flawOf(err))
		}
		if root != nil {
			roots = append(roots, root)
		}
	}
	return roots, r.flaws
}

type yamlReader struct {
	lines []string
	words int // that the tree has
	flaws []Flaw
}

// tokens are those of each document, without comments, once they have been
// found harmless.
func (r *yamlReader) tokens(text string) (documents []token.Tokens, err error) {
	defer recoverParser(&err)
	all := lexer.Tokenize(text)
	if bad := all.InvalidToken(); bad != nil {
		return nil, &Flaw{r.position(bad), bad.Error}
	}
	var current token.Tokens
	for _, t := range all {
		switch t.Type {
		case token.CommentType:
		case token.DocumentHeaderType, token.DocumentEndType:
			documents = append(documents, current)
			current = nil
		default:
			current = append(current, t)
		}
	}
	documents = append(documents, current)
	for _, tokens := range documents {
		if err := checkTokens(tokens); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// document reads one document, nil if there is nothing in it.
func (r *yamlReader) document(tokens token.Tokens) (root *Node, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	defer recoverParser(&err)
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, &Flaw{r.position(tokens[0]), "cannot be read as one document"}
	}
	r.words = 0
	root, err = r.read(file.Docs[0].Body, 0)
	if err != nil {
		return nil, err
	}
	// A parser that reads over something it does not understand would make
	// something else of the file than its author.
	if r.words != countWords(tokens) {
		return nil, &Flaw{r.position(tokens[0]), "not everything in this document could be read: is its indentation right?"}
	}
	return root, nil
}

func (r *yamlReader) read(from ast.Node, depth int) (*Node, error) {
	if from == nil {
		return &Node{}, nil
	}
	at := r.position(from.GetToken())
	if depth > MaxDepth {
		return nil, tooDeep(at)
	}
	switch v := from.(type) {
	case *ast.MappingNode:
		n, err := r.mapping(v.Values, depth)
		if v.IsFlowStyle && err == nil {
			n.At = at
		}
		return n, err
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		n := &Node{At: at, Kind: List}
		for _, value := range v.Values {
			item, err := r.read(value, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
		return n, nil
	}
	value, err := r.scalar(from)
	return &Node{At: at, Value: value}, err
}

// mapping begins at its first key, where the parser points at the colon.
func (r *yamlReader) mapping(values []*ast.MappingValueNode, depth int) (*Node, error) {
	n := &Node{Kind: Object}
	names := map[string]Position{}
	for _, v := range values {
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			return nil, &Flaw{r.position(v.Key.GetToken()), "a key must be a text"}
		}
		r.words++
		f := Field{Name: key.GetToken().Value, At: r.position(key.GetToken())}
		r.flaws = noteTwice(r.flaws, names, f)
		var err error
		if f.Value, err = r.read(v.Value, depth+1); err != nil {
			return nil, err
		}
		n.Fields = append(n.Fields, f)
	}
	if len(n.Fields) > 0 {
		n.At = n.Fields[0].At
	}
	return n, nil
}

// scalar is what a single value would be in JSON.
func (r *yamlReader) scalar(from ast.Node) (any, error) {
	t := from.GetToken()
	if t.Type != token.ImplicitNullType {
		r.words++
	}
	switch v := from.(type) {
	case *ast.LiteralNode:
		if v.Value == nil {
			return "", nil
		}
		return v.Value.Value, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.BoolNode:
		return v.Value, nil
	case *ast.StringNode:
		if t.Type == token.StringType && isNumber(t.Value) { // 1E5 is a text to the parser, and so is a long number
			return json.Number(t.Value), nil
		}
		return v.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if isNumber(t.Value) {
			return json.Number(t.Value), nil
		}
		return nil, &Flaw{r.position(t), "is a number in a form that JSON does not have: write it in decimal digits, or in quotes if it is a text"}
	}
	return nil, &Flaw{r.position(t), "is not something that JSON has"}
}

// position is where a token begins.
func (r *yamlReader) position(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	at := Position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
	if at.Line > len(r.lines) || len(r.lines[at.Line-1]) > maxLine || !strings.Contains(r.lines[at.Line-1], "\t") {
		return at
	}
	// The lexer loses count at tabs: look for the token nearby.
	first := t.Value
	switch t.Type {
	case token.DoubleQuoteType:
		first = `"`
	case token.SingleQuoteType:
		first = "'"
	}
	line := r.lines[at.Line-1]
	before := len(string([]rune(line)[:min(at.Column-1, utf8.RuneCountInString(line))]))
	if i := strings.Index(line[before:], first); i >= 0 {
		at.Column = utf8.RuneCountInString(line[:before+i]) + 1
	}
	return at
}

func (r *yamlReader) flawOf(err error) Flaw {
	var known *Flaw
	if errors.As(err, &known) {
		return *known
	}
	var syntax *yaml.SyntaxError // its own text quotes the source
	if errors.As(err, &syntax) {
		return Flaw{r.position(syntax.Token), syntax.Message}
	}
	return Flaw{Position{1, 1}, err.Error()}
}

// recoverParser makes a panic of the parser an error: files are untrusted.
func recoverParser(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the YAML parser gave up on this file")
	}
}
