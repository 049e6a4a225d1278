package middleware

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// Attribute is an attribute of requests and its source.
type Attribute[R any] struct {
	Name string
	Of   func(R) string
}

// describe adds to the request what options set. The user's functions are called in
// the order of their fields, Amend last. A request that the transport only peeks
// with has no cost.
func (g *Gate[R]) describe(r R, req *fluxgate.Request) error {
	req.RuleSet = g.RuleSet
	if g.RuleSetOf != nil {
		req.RuleSet = g.RuleSetOf(r)
	}
	if g.UserOf != nil {
		req.UserID = g.UserOf(r)
	}
	if g.APIKeyOf != nil {
		req.APIKey = g.APIKeyOf(r)
	}
	if req.UserID == repeated || req.APIKey == repeated {
		return ErrRepeatedHeader
	}
	for i := range g.Attributes {
		value := g.Attributes[i].Of(r)
		if value == "" {
			continue
		}
		if value == repeated {
			return ErrRepeatedHeader
		}
		if req.Attributes == nil {
			req.Attributes = make(map[string]string, len(g.Attributes))
		}
		req.Attributes[g.Attributes[i].Name] = value
	}
	req.Cost = g.Cost
	if g.CostOf != nil {
		req.Cost = g.CostOf(r)
		req.Peek = req.Cost == 0
	}
	if g.Amend != nil {
		if err := g.Amend(r, req); err != nil {
			return fmt.Errorf("%w: %w", fluxgate.ErrHook, err)
		}
	}
	return nil
}

// ErrRepeatedHeader is the error of a request with several lines of a header that
// names the caller: the handler may use another line than the limiter.
var ErrRepeatedHeader = errors.New("a header that names the caller was sent more than once")

// repeated is what OneLine and BearerToken return for it. No header has this value.
const repeated = "\x00repeated"

// OneLine returns the only line of a header. With several, Decide returns
// ErrRepeatedHeader.
func OneLine(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return lines[0]
	}
	return repeated
}

// BearerToken returns the token of the lines of an Authorization header. With
// several lines, Decide returns ErrRepeatedHeader.
func BearerToken(lines []string) string {
	line := OneLine(lines)
	if line == repeated {
		return repeated
	}
	scheme, token, found := strings.Cut(line, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
