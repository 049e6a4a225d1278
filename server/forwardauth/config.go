package forwardauth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Path is where servers answer proxies.
const Path = "/v1/forward-auth"

// ProblemHeader contains the problem document of a rejection with a status other
// than its own.
const ProblemHeader = "X-Fluxgate-Problem"

// Config configures a [Handler]. Its zero value is for proxies on the same
// machine, and reads no users, API keys and attributes from headers.
type Config struct {
	// Proxies are the trusted proxies, and the header in which they send the
	// client's address. Without any: 127.0.0.0/8 and ::1.
	Proxies clientip.Config

	// DenyStatus is the status of rejections unless the query sets another: 401
	// or 403, or 429, which means the status of the rejection. 0 means 429.
	DenyStatus int
	// DenyHeader is the header with the status of the rejection itself. Empty
	// means X-Fluxgate-Status.
	DenyHeader string

	// MethodHeader, URIHeader and HostHeader describe the client's request.
	// Empty means X-Forwarded-Method, X-Forwarded-Uri and X-Forwarded-Host.
	MethodHeader, URIHeader, HostHeader string

	// UserHeader and APIKeyHeader identify the caller. Empty means none. The
	// proxy must remove UserHeader from requests of clients. APIKeyHeader is for
	// keys that are verified elsewhere.
	UserHeader, APIKeyHeader string
	// Attributes are the headers of attributes, by the attributes' names.
	// Clients can set them unless the proxy overwrites them.
	Attributes map[string]string

	// Options are further options of the middleware, such as
	// [httplimit.WithPaths] and [httplimit.WithObserver]. They see the client's
	// request as described. They cannot change the client's address, the rule
	// set and the rejection.
	Options []httplimit.Option
}

// withDefaults fills in empty fields and returns all problems.
func (c Config) withDefaults() (Config, error) {
	if len(c.Proxies.TrustedProxies) == 0 && !c.Proxies.TrustUnixSocket {
		c.Proxies.TrustedProxies = []string{"127.0.0.0/8", "::1"}
	}
	c.DenyStatus = cmp.Or(c.DenyStatus, http.StatusTooManyRequests)
	var problems []error
	if !canDeny(c.DenyStatus) {
		problems = append(problems, fmt.Errorf("deny status %d: use 401, 403 or 429", c.DenyStatus))
	}
	for _, header := range []struct {
		name     *string
		fallback string
	}{
		{&c.DenyHeader, "X-Fluxgate-Status"},
		{&c.MethodHeader, "X-Forwarded-Method"},
		{&c.URIHeader, "X-Forwarded-Uri"},
		{&c.HostHeader, "X-Forwarded-Host"},
		{&c.UserHeader, ""},
		{&c.APIKeyHeader, ""},
	} {
		if *header.name == "" {
			*header.name = header.fallback
			continue
		}
		if !syntax.IsToken(*header.name) {
			problems = append(problems, fmt.Errorf("invalid header name %q", *header.name))
		}
		*header.name = textproto.CanonicalMIMEHeaderKey(*header.name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		if header := c.Attributes[name]; !syntax.IsToken(header) {
			problems = append(problems, fmt.Errorf("attribute %q: invalid header name %q", name, header))
		}
	}
	return c, errors.Join(problems...)
}

// canDeny reports whether rejections can have this status.
func canDeny(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests
}

// singleHeaders returns the headers that may occur once. X-Forwarded-For is not
// among them: its lines form one list.
func (c *Config) singleHeaders() []string {
	names := []string{c.MethodHeader, c.URIHeader, c.HostHeader}
	for _, name := range append(slices.Collect(maps.Values(c.Attributes)), c.UserHeader, c.APIKeyHeader, c.Proxies.Header) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name != "" && name != clientip.XForwardedFor {
			names = append(names, name)
		}
	}
	return names
}

// options returns the options of the middleware.
func (c *Config) options(resolver *clientip.Resolver) []httplimit.Option {
	var options []httplimit.Option
	if c.UserHeader != "" {
		options = append(options, httplimit.WithUserFunc(httplimit.Header(c.UserHeader)))
	}
	if c.APIKeyHeader != "" {
		options = append(options, httplimit.WithAPIKeyFunc(httplimit.Header(c.APIKeyHeader)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		options = append(options, httplimit.WithAttribute(name, httplimit.Header(c.Attributes[name])))
	}
	return append(append(options, c.Options...),
		httplimit.WithClientIP(resolver), httplimit.WithRuleSetFunc(ruleSetOf), httplimit.WithRejection(reject))
}
