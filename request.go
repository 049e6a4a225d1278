package fluxgate

import (
	"fmt"
	"net/netip"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
)

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
	// Descriptor is what Envoy tells of the call, in order. One with more than
	// MaxDescriptor entries is matched by no rule that asks for a descriptor.
	Descriptor []DescriptorEntry
	// Limit replaces the rules that match, for this descriptor: see [Engine.CheckAll]. A
	// quota counts refused requests, as [rules.Rule.CountRefused].
	Limit *rules.Band
	// Cost is how many tokens the request takes under rules that count requests. 0
	// means 1.
	Cost int64
	// Costs are what it may cost at most under rules that count something else, by
	// measure. They are estimates: see [Engine.SettleUsage].
	Costs map[string]int64
	// Estimate is what it may use of a language model, or nil. The cost tables of the
	// rule set make costs of it, for measures that Costs does not have.
	Estimate *Estimate
	// Peek decides and takes nothing: remaining tokens are those before the
	// take. With Cost 0 it only reads the state.
	Peek bool
}

// DescriptorEntry is one entry of a descriptor.
type DescriptorEntry = match.DescriptorEntry

// CheckCosts returns an error that wraps ErrCost if the request has costs that cannot
// be. Limiters call it first.
func (r *Request) CheckCosts() error {
	if r.Cost < 0 || anyNegative(r.Costs) || r.Estimate != nil && min(r.Estimate.InputTokens, r.Estimate.MaxOutputTokens) < 0 {
		return errNegative
	}
	if _, ok := r.Costs[rules.MeasureRequests]; ok {
		return fmt.Errorf("%w: the number of requests belongs in Cost, not in Costs", ErrCost)
	}
	return nil
}

// cost is what the request takes.
func (r *Request) cost() int64 {
	if r.Cost == 0 && !r.Peek {
		return 1
	}
	return r.Cost
}

// matching returns what the matcher needs of the request.
func (r *Request) matching() match.Request {
	return match.Request{
		Path: r.Path, Method: r.Method, Host: r.Host, IP: r.IP, User: r.UserID,
		APIKey: r.APIKey, Headers: r.Headers, Attributes: r.Attributes, Descriptor: r.Descriptor,
	}
}
