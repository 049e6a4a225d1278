package match_test

import (
	"fmt"

	"github.com/fluxgate/fluxgate/internal/match"
)

// Three rules of one group: of those that match, the first applies.
func ExampleMatcher_Match() {
	tenant := []match.Condition{match.Attributes{"tenant": {"acme"}}}
	tier := []match.Condition{match.Attributes{"tier": {"premium"}}}
	m, err := match.Compile([]match.Rule{
		{Paths: []string{"/api/**"}, Group: "api", Conditions: tenant},
		{Paths: []string{"/api/**"}, Group: "api", Conditions: tier},
		{Paths: []string{"/api/**"}, Group: "api"},
		{Conditions: []match.Condition{match.Methods{"GET"}}},
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
