package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// tokensFile is what stands in a file of tokens.
type tokensFile struct {
	Tokens []Token `key:"tokens"`
}

// AllTokens are those of the configuration and of its file, which is read anew:
//
//	tokens:
//	  - {name: ci, sha256: 2c26b46b…, roles: [check], rule-sets: [api-limits]}
//
// If anything in it is wrong the error is an [*Error].
func (a Auth) AllTokens() ([]Token, error) {
	all := slices.Clone(a.Tokens)
	if a.TokensFile == "" {
		return all, nil
	}
	data, err := readFile(a.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	file, flaws := yamltree.Read(a.TokensFile, data, mayHoldSecret)
	var found Error
	for _, f := range flaws {
		found.add(file.Problem(f.At, "", f.Message))
	}
	if len(flaws) == 0 && len(file.Documents) != 1 {
		found.add(file.Problem(yamltree.Position{}, "", "must hold one document with a list under tokens"))
	}
	if err := found.orNil(); err != nil {
		return nil, err
	}
	var more tokensFile
	root := file.Documents[0]
	groupOf(reflect.TypeFor[tokensFile](), "").setFields(reflect.ValueOf(&more).Elem(), root, func(n *yamltree.Node, inside, message string) {
		found.add(file.Problem(n.At, inside[min(1, len(inside)):], message))
	})
	if len(found.Problems) == 0 {
		// All together, since a name may stand in both.
		for _, wrong := range wrongTokens(append(all, more.Tokens...)) {
			var i int
			var key string
			if _, err := fmt.Sscanf(wrong.Place, "[%d]%s", &i, &key); err == nil && i >= len(all) {
				place := fmt.Sprintf("tokens[%d]%s", i-len(all), key)
				found.add(file.Problem(root.Locate(place, nil).At, place, wrong.Message))
			}
		}
	}
	if err := found.orNil(); err != nil {
		return nil, err
	}
	return append(all, more.Tokens...), nil
}
