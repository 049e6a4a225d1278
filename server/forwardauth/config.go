package forwardauth

import (
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

// ProblemHeader has the problem document of a rejection whose status is not
// its own.
const ProblemHeader = "X-Fluxgate-Problem"

// Config is who may ask and how. Its zero value is for proxies on the same
// machine, and believes nobody's word on users, keys and attributes.
type Config struct {
	// Proxies are those that may ask, and the header in which they name the
	// client. Without any, 127.0.0.0/8 and ::1.
	Proxies clientip.Config
	// AnyPeer answers others too, for servers that know by other means who
	// asks. Of them everything is believed but the client's address: that is
	// then their own.
	AnyPeer bool

	// DenyStatus is the status of rejections where the query does not say: 401
	// or 403, or 429, which means that each has its own. 0 means 429.
	DenyStatus int
	// DenyHeader is where a rejection says its own status. Empty means
	// X-Fluxgate-Status.
	DenyHeader string

	// MethodHeader, URIHeader and HostHeader are where proxies say what is asked
	// for. Empty means X-Forwarded-Method, X-Forwarded-Uri and X-Forwarded-Host.
	MethodHeader, URIHeader, HostHeader string

	// UserHeader and APIKeyHeader are where the caller is named. Empty means
	// nowhere. A proxy must remove what clients write into the first; the
	// second is for keys that someone has checked.
	UserHeader, APIKeyHeader string
	// Attributes are the headers of attributes, by the attributes' names.
	// Clients can write them unless the proxy does.
	Attributes map[string]string
	// RuleSetHeader is where proxies that cannot write it into the query say
	// the rule set. Empty means nowhere: a proxy that does not overwrite it
	// would let clients choose their limits. The query goes first.
	RuleSetHeader string

	// Options are what else the middleware is to do, such as
	// [httplimit.WithPaths] and [httplimit.WithObserver]. They see the client's
	// request as it was described. The client's address, the rule set and the
	// rejection stay this package's.
	Options []httplimit.Option
}

// withDefaults fills in what is empty and says what is wrong.
func (c Config) withDefaults() (Config, error) {
	if len(c.Proxies.TrustedProxies) == 0 && !c.Proxies.TrustUnixSocket {
		c.Proxies.TrustedProxies = []string{"127.0.0.0/8", "::1"}
	}
	if c.DenyStatus == 0 {
		c.DenyStatus = http.StatusTooManyRequests
	}
	var problems []error
	if !canDeny(c.DenyStatus) {
		problems = append(problems, fmt.Errorf("requests cannot be denied with %d: use 401, 403 or 429", c.DenyStatus))
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
		{&c.RuleSetHeader, ""},
	} {
		if *header.name == "" {
			*header.name = header.fallback
			continue
		}
		if !syntax.IsToken(*header.name) {
			problems = append(problems, fmt.Errorf("%q is not the name of a header", *header.name))
		}
		*header.name = textproto.CanonicalMIMEHeaderKey(*header.name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		if header := c.Attributes[name]; !syntax.IsToken(header) {
			problems = append(problems, fmt.Errorf("attribute %q: %q is not the name of a header", name, header))
		}
	}
	return c, errors.Join(problems...)
}

// canDeny reports whether rejections can have a status.
func canDeny(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests
}

// identityHeaders are the headers that become a part of the client's identity.
// X-Forwarded-For and Forwarded are not among them: their lines are one list.
func (c *Config) identityHeaders() []string {
	var names []string
	for _, name := range append(slices.Collect(maps.Values(c.Attributes)), c.UserHeader, c.APIKeyHeader, c.Proxies.Header) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name != "" && name != clientip.XForwardedFor && name != clientip.Forwarded {
			names = append(names, name)
		}
	}
	return names
}

// options are those of the middleware.
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
