package fluxgate

import "net/netip"

// Request is what is known about a call. Every field is optional; all of them
// are untrusted.
type Request struct {
	// RuleSet is the id of the rule set to decide by. Empty means the
	// engine's default.
	RuleSet string
	// IP is the client's address. Behind proxies the transport must find it,
	// see package clientip.
	IP netip.Addr
	// UserID and APIKey are the caller's identities, if any.
	UserID, APIKey string
	// Method, Path and Host are the request's, the path as it was sent and
	// percent-encoded. A "?" ends the path; one with a "#" or a "\" is refused.
	Method, Path, Host string
	// Headers are the request's under their canonical names, as in
	// [net/http.Header], or all in lower case, as in gRPC.
	Headers map[string][]string
	// Attributes are other known properties: tenant, plan, region.
	Attributes map[string]string
	// Cost is how many tokens the request takes. 0 means 1.
	Cost int64
	// Peek decides and takes nothing: remaining tokens are those before the
	// take. With Cost 0 it only reads the state.
	Peek bool
}

// cost is what the request takes.
func (r *Request) cost() int64 {
	if r.Cost == 0 && !r.Peek {
		return 1
	}
	return r.Cost
}
