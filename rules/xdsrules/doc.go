// Package xdsrules gets rule sets from an xDS server: the rate limit configurations
// (RateLimitConfig resources) that Envoy Gateway and other control planes serve to
// envoyproxy/ratelimit.
//
//	source, err := xdsrules.Open(ctx, xdsrules.Config{Server: "envoy-gateway:18001", NodeID: "envoy-ratelimit"})
//	...
//	rules, err := reload.Start(ctx, source, reload.Config{})
//
// The protocol is the aggregated discovery service over gRPC, state of the world: each
// response has all resources and replaces those before it. A resource is the configuration
// of one domain, and becomes a rule set as in package envoyrules.
//
// A response is accepted as a whole or not at all. An invalid response is rejected with the
// name of the resource and its problem, and the last accepted response stays in effect. It
// also stays in effect while the server is unavailable; [Source.Err] returns the reason.
package xdsrules
