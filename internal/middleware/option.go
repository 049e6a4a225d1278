package middleware

import (
	"errors"
	"fmt"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/match"
)

// Apply applies the options of a gate and checks its limiter. The error lists all
// problems.
func Apply[G any, O ~func(*G) error](g *G, limiter fluxgate.Limiter, options []O) error {
	var problems []error
	if limiter == nil {
		problems = append(problems, errors.New("no limiter"))
	}
	for _, option := range options {
		problems = append(problems, option(g))
	}
	return errors.Join(problems...)
}

// Set returns an option that is never an error.
func Set[G any](change func(*G)) func(*G) error {
	return func(g *G) error {
		change(g)
		return nil
	}
}

// Needed returns an option that is an error if its value is missing.
func Needed[G any](what string, missing bool, change func(*G)) func(*G) error {
	if missing {
		return func(*G) error { return fmt.Errorf("%s must not be nil", what) }
	}
	return Set(change)
}

// SetInclude limits only paths that match one of the patterns.
func (g *Gate[R]) SetInclude(what string, patterns []string) error {
	if len(patterns) == 0 {
		return fmt.Errorf("%s: at least one pattern is needed", what)
	}
	return compile(what, patterns, &g.Include)
}

// SetExclude skips paths that match one of the patterns.
func (g *Gate[R]) SetExclude(what string, patterns []string) error {
	return compile("excluded "+what, patterns, &g.Exclude)
}

func compile(what string, patterns []string, to **match.Paths) error {
	paths, err := match.CompilePaths(patterns)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	*to = paths
	return nil
}

// SetCost sets the cost of every request.
func (g *Gate[R]) SetCost(tokens int64) error {
	if tokens < 1 {
		return fmt.Errorf("the cost of a request must be at least 1 token, not %d", tokens)
	}
	g.Cost = tokens
	return nil
}

// AddAttribute adds an attribute of requests.
func (g *Gate[R]) AddAttribute(name string, of func(R) string) error {
	if name == "" {
		return errors.New("an attribute has no name")
	}
	if of == nil {
		return fmt.Errorf("the function of attribute %q must not be nil", name)
	}
	g.Attributes = append(g.Attributes, Attribute[R]{name, of})
	return nil
}

// SetRuleSet sets the rule set of all requests. An engine may know that there is none.
func (g *Gate[R]) SetRuleSet(id string) error {
	g.RuleSet = id
	if engine, ok := g.Limiter.(interface{ Require(id string) error }); ok && id != "" {
		return engine.Require(id)
	}
	return nil
}
