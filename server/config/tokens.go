package config

import (
	"fmt"
	"reflect"
	"slices"
)

// tokensFile is the content of a file of tokens.
type tokensFile struct {
	Tokens []Token `key:"tokens"`
}

// AllTokens returns the tokens of the configuration and of its file, which is read again:
//
//	tokens:
//	  - {name: ci, sha256: 8c1f3bd2…, roles: [check], rule-sets: [api-limits]}
//
// If the file is invalid, the error is an [*Error].
func (a Auth) AllTokens() ([]Token, error) {
	all := slices.Clone(a.Tokens)
	if a.TokensFile == "" {
		return all, nil
	}
	data, err := ReadFile(a.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	d := newDecoder(nil)
	var content tokensFile
	document := d.readDocument(a.TokensFile, data, "a list under tokens")
	if document != nil {
		d.group(groupOf(reflect.TypeFor[tokensFile](), "", nil), reflect.ValueOf(&content).Elem(), document, "")
	}
	all = append(all, content.Tokens...)
	if len(d.found.Problems) == 0 {
		// All together, since a name may be in both.
		groupOf(reflect.TypeFor[Token](), "", nil).checkItems(reflect.ValueOf(all), func(item int, inside, message string) {
			if i := item - len(a.Tokens); i >= 0 {
				d.found.Add(d.problem(fmt.Sprintf("tokens[%d]%s", i, inside), message))
			}
		})
	}
	if err := errorOf(&d.found); err != nil {
		return nil, err
	}
	return all, nil
}
