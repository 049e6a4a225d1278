package httplimit

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// attribute is one of a request's, and where it comes from.
type attribute struct {
	name string
	of   func(*http.Request) string
}

// describe fills in what is known about a request. The user's functions have
// their say in the order of their fields, and amend has the last word.
func (g *gate) describe(r *http.Request, path string, req *fluxgate.Request) error {
	req.RuleSet, req.Cost = g.ruleSet, g.cost
	req.Method, req.Path, req.Host, req.Headers = r.Method, path, r.Host, r.Header
	req.IP = g.ips.Addr(r)
	if g.ruleSetOf != nil {
		req.RuleSet = g.ruleSetOf(r)
	}
	if g.userOf != nil {
		req.UserID = g.userOf(r)
	}
	if g.apiKeyOf != nil {
		req.APIKey = g.apiKeyOf(r)
	}
	for i := range g.attributes {
		value := g.attributes[i].of(r)
		if value == "" {
			continue
		}
		if req.Attributes == nil {
			req.Attributes = make(map[string]string, len(g.attributes))
		}
		req.Attributes[g.attributes[i].name] = value
	}
	if g.costOf != nil {
		req.Cost = g.costOf(r)
		req.Peek = req.Cost == 0
	}
	if g.amend != nil {
		if err := g.amend(r, req); err != nil {
			return fmt.Errorf("%w: %w", fluxgate.ErrHook, err)
		}
	}
	return nil
}

// Header is a function that reads a header, for [WithAPIKeyFunc],
// [WithUserFunc] and [WithAttribute]. What it returns is as trustworthy as who
// wrote the header. Of several lines with the name it reads none: one of them
// may be the client's.
func Header(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return func(r *http.Request) string {
		if lines := r.Header[name]; len(lines) == 1 {
			return lines[0]
		}
		return ""
	}
}

// BearerToken reads the token of an Authorization header, for
// [WithAPIKeyFunc]. It does not check the token.
func BearerToken(r *http.Request) string {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return ""
	}
	scheme, token, found := strings.Cut(lines[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
