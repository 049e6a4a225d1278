package match_test

import (
	"fmt"

	"github.com/fluxgate/fluxgate/internal/match"
)

// Three rules of one group: of those that match, the first applies.
func ExampleMatcher_Match() {
	m, err := match.Compile([]match.Rule{
		{Paths: []string{"/api/**"}, Group: "api", Attributes: map[string][]string{"tenant": {"acme"}}},
		{Paths: []string{"/api/**"}, Group: "api", Attributes: map[string][]string{"tier": {"premium"}}},
		{Paths: []string{"/api/**"}, Group: "api"},
		{Methods: []string{"GET"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	premium := &match.Request{Path: "/api/users", Method: "GET", Attributes: map[string]string{"tier": "premium"}}
	fmt.Println(m.Match(premium, nil).Rules)
	fmt.Println(m.Match(&match.Request{Path: "/x/..//api/", Method: "POST"}, nil).Rules)
	// Output:
	// [1 3]
	// [2]
}

func ExampleCheckPattern() {
	fmt.Println(match.CheckPattern("/api/v*"))
	// Output:
	// pattern "/api/v*": a star must be a whole segment, not part of "v*": write * for one segment, ** for any number, %2A for the character itself
}
