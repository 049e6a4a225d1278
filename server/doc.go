// Package server is the fluxgate daemon as a value: [New] builds everything
// that a configuration asks for, [App.Run] serves until its context ends and
// then drains, [App.Reload] looks at rules, tokens and certificates at once.
// The command is a few lines over it, and so is a test.
//
// # What lives how long
//
// Listeners, connections to Redis and the rule source live as long as the App.
// Rule sets, tokens and certificates are swapped while it runs, each by one
// pointer, and only for a good one.
//
// A server whose Redis is away starts all the same: until it is there, rules
// decide as their onFailure says, and health says degraded.
package server
