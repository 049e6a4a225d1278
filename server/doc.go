// Package server is the fluxgate server: [New] builds it from a configuration,
// [App.Run] serves until its context ends and then drains, and [App.Reload] loads
// rules, tokens and certificates at once.
//
// # Parts
//
// An App holds the plane (package plane), which decides; the feed, which has the rules and their
// source; the edge, which has listeners, certificates and authentication; and the watch, which
// has metrics, traces and live numbers. Its routes are in routes.go, admin.go and grpc.go.
// Package backend opens what the plane and the feed need, also for an [Operator] and for doctor.
//
// # Lifetimes
//
// Listeners, connections to Redis and the rule source live as long as the App.
// Rule sets, tokens and certificates are replaced while it runs, each by swapping
// one pointer, and only by valid ones.
//
// Listeners open before anything is waited for: a server that starts is alive and
// not ready. It starts without its Redis and its rule source: until Redis answers,
// onFailure of the rules decides, until the source answers, the copies of the rules
// on disk are in effect, and health is degraded.
package server
