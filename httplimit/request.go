package httplimit

import (
	"errors"
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

// describe fills in the request. The user's functions are called in the order of
// their fields, amend last.
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
	if req.UserID == repeated || req.APIKey == repeated {
		return ErrRepeatedHeader
	}
	for i := range g.attributes {
		value := g.attributes[i].of(r)
		if value == "" {
			continue
		}
		if value == repeated {
			return ErrRepeatedHeader
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

// ErrRepeatedHeader is the error of a request with several lines of a header that
// [Header] or [BearerToken] reads: the handler may use another line than the
// limiter.
var ErrRepeatedHeader = errors.New("a header that names the caller was sent more than once")

// repeated is what Header and BearerToken return for it. No header has this value.
const repeated = "\x00repeated"

// Header is a function that reads a header, for [WithAPIKeyFunc],
// [WithUserFunc] and [WithAttribute]. Clients can set the header unless a proxy
// overwrites it. A request with several lines of it is refused with 400.
func Header(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return func(r *http.Request) string { return oneLine(r.Header[name]) }
}

func oneLine(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return lines[0]
	}
	return repeated
}

// BearerToken reads the token of an Authorization header, for
// [WithAPIKeyFunc]. It does not check the token. A request with several lines of
// the header is refused with 400.
func BearerToken(r *http.Request) string {
	line := oneLine(r.Header["Authorization"])
	if line == repeated {
		return repeated
	}
	scheme, token, found := strings.Cut(line, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
