package fluxgate

import (
	"fmt"
	"net/netip"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
)

// Request describes a call. All fields are optional and untrusted.
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
	// percent-encoded. A "?" ends the path. A path with a "#" or a "\" is rejected.
	Method, Path, Host string
	// Headers are the request's under their canonical names, as in
	// [net/http.Header], or all in lower case, as in gRPC.
	Headers map[string][]string
	// Attributes are other known properties: tenant, plan, region.
	Attributes map[string]string
	// Descriptor is the descriptor of Envoy, in order. A rule with a descriptor does not
	// match one with more than MaxDescriptor entries.
	Descriptor []DescriptorEntry
	// Limit replaces all rules for this request in [Engine.CheckAll]; Check ignores it. A quota
	// also counts rejected requests, as [rules.Rule.CountRefused].
	Limit *rules.Band
	// Cost is how many tokens the request takes under rules that count requests. 0
	// means 1.
	Cost int64
	// Costs are the maximum costs under rules that count something else, by measure.
	// They are estimates: see [Engine.SettleUsage].
	Costs map[string]int64
	// Estimate is the maximum usage of a language model, or nil. The cost tables of the
	// rule set convert it to costs, for measures that are not in Costs.
	Estimate *Estimate
	// Peek decides and takes nothing: remaining tokens are those before the
	// take. With Cost 0 it only reads the state.
	Peek bool
	// EndUnknown means that the end of the request will not be reported, as by a proxy that
	// only asks whether a request may pass. Limits on concurrent requests are not enforced for
	// it: see [WithHeldSlots] and [Engine.NotEnforced].
	EndUnknown bool
}

// DescriptorEntry is one entry of a descriptor.
type DescriptorEntry = match.DescriptorEntry

// CheckCosts returns an error that wraps ErrCost if the costs of the request are invalid: if
// one is negative, or a cost is above [store.MaxCost]. Limiters call it first.
func (r *Request) CheckCosts() error {
	if err := checkCost(r.Cost); err != nil {
		return err
	}
	if err := checkCosts(r.Costs); err != nil {
		return err
	}
	// Estimates have no upper bound: they are cut to what a limit holds.
	if e := r.Estimate; e != nil && min(e.InputTokens, e.MaxOutputTokens) < 0 {
		return checkCost(-1)
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

// matching returns what the matcher needs of the request at a moment.
func (r *Request) matching(now int64) match.Request {
	return match.Request{
		Path: r.Path, Method: r.Method, Host: r.Host, IP: r.IP, User: r.UserID,
		APIKey: r.APIKey, Headers: r.Headers, Attributes: r.Attributes, Descriptor: r.Descriptor, Now: now,
	}
}
