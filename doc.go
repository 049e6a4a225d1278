// Package fluxgate decides whether a request to an API is allowed now. Rules limit
// how many requests a caller may send. Exact token buckets count the requests.
//
// # The path of a request
//
//	Request ──▶ Engine ──▶ RuleSet: which rules apply ──▶ keys: whose buckets
//	                                                         │
//	Decision ◀── binding rule and band ◀── Outcome ◀── Store.Take: all or none
//
// A transport builds a [Request] and calls an [Engine]. The engine looks up the
// [rules.Set], finds the rules that apply, makes a [store.Key] for each, and calls its
// [store.Store] once for all of them. The [Decision] names the binding rule and
// limit (band). It can be settled when the actual cost is known.
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
// A program that needs one limit for a key, and no rules, needs one line:
//
//	logins := fluxgate.NewKeyLimiter(store, "logins", rules.PerMinute(5))
//
// # What is exact
//
// Every decision of a store equals that of an ideal token bucket, computed in exact
// rationals at the store's clock tick: not a token more, not a token less. Package
// store/lease answers from memory, within documented bounds. A rejection changes
// nothing, and a request takes from every limit of every rule that applies or from
// none, except where a rule has overdrafts or counts refused requests. A rule change
// is not a refill. The suite in store/storetest checks this for every store.
package fluxgate
