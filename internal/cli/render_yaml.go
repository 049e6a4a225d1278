package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// yamlText is a value as YAML: its JSON, key for key in the same order. Package
// filerules reads the same value again, with strings of any characters and
// numbers of any length.
func yamlText(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	var out bytes.Buffer
	to := yaml.NewEncoder(&out)
	to.SetIndent(2)
	if err := to.Encode(yamlNode(from)); err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return printable.JSON(out.Bytes(), "\n"), nil
}

// yamlNode is the next value of JSON that was just written and has no errors. Strings that YAML
// could take for something else are in quotes.
func yamlNode(from *json.Decoder) *yaml.Node {
	token, _ := from.Token()
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for from.More() { // keys and values of an object take turns
			n.Content = append(n.Content, yamlNode(from))
		}
		_, _ = from.Token() // the end of the block
		return n
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if yamltree.Quoted(t) != t {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	}
	text, _ := jsonText(token) // a scalar has no errors
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
}
