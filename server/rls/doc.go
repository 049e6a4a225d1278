// Package rls answers Envoy's rate limit protocol, envoy.service.ratelimit.v3, over gRPC.
//
// The domain of a call names the rule set, and each of its descriptors is a request of its
// own: rules match it by when.descriptor and count by its entries. A call takes tokens for
// all of its descriptors, or for none.
package rls
