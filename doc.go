// Package fluxgate decides, for every request that reaches an API, whether it
// may pass now. Rules limit how many requests a caller may send; exact token
// buckets count them.
//
// # The path of a request
//
//	Request ──▶ Engine ──▶ RuleSet: which rules apply ──▶ keys: whose buckets
//	                                                         │
//	Decision ◀── binding rule and band ◀── Outcome ◀── Store.Take: all or none
//
// A transport builds a [Request] and calls an [Engine]. The engine looks up the
// [rules.Set], finds the rules that apply, makes a [store.Key] for each, and calls its
// [store.Store] once for all of them. The [Decision] names the rule and band that
// bind, and can be settled when the actual cost is known.
//
// # Getting started
//
// A rule set is built from [rules.Rule] values or read from JSON with [rules.Parse].
// Both validate the whole rule set and report every problem at once. The store
// is store/memstore for one process, or store/redisstore, wrapped by store/lease,
// for several.
//
//	set, err := rules.NewSet("api", rules.Rule{
//		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)},
//	})
//	store, err := memstore.New(memstore.Config{})
//	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api"))
//	decision, err := engine.Check(ctx, &fluxgate.Request{IP: ip, Method: "GET", Path: "/users"})
//
// A program that has a key and a limit and no rules needs one line:
//
//	logins := fluxgate.NewKeyLimiter(store, "logins", rules.PerMinute(5))
//
// # What is exact
//
// Every decision of a store equals that of an ideal token bucket computed in
// exact rationals at the store's clock tick: never a token too many, never one
// too few. Package store/lease answers from memory, within bounds that it
// publishes. A rejection changes nothing; a request takes from every band of every
// rule that applies or from none; a rule change is not a refill. The suite in
// store/storetest checks it for every store.
package fluxgate
