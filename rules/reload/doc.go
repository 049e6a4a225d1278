// Package reload keeps the rule sets of a source in memory and up to date, for
// the engine to decide by.
//
//	source, err := filerules.Open("rules.yaml", filerules.Config{})
//	...
//	rules, err := reload.Start(ctx, source, reload.Config{})
//	...
//	engine, err := fluxgate.New(store, rules, fluxgate.WithRuleSet("api-limits"))
//
// # How a change arrives
//
// Every half interval the source is asked for the revisions of the rule sets in
// use, which is one small read; only a rule set whose revision has changed is
// read whole. With a Redis client in the [Config] an [Announcer] can say that
// something has changed, and reloaders that listen look at once. An announcement
// is a hint: the revision in it is not used, so that a forged one causes one
// look at most. While looks that hints ask for find nothing new, the gap between
// them grows from 10 ms to 1 s. A source that notices changes itself gives the
// same hints.
//
// A source whose content can be edited with other programs is a
// [rules.Reconciler]: every half interval it imports edits as revisions, which
// are loaded and announced. So an edit is in effect on all servers within one
// interval, under every strategy but Off.
//
// A new version replaces the old one by one pointer. Requests in flight finish
// on the rules they began with, and what callers have used carries over.
//
// # When something is wrong
//
// What cannot be read, or breaks the rules of the language, changes nothing:
// the last good version goes on deciding, and [Reloader.Status] says so. If
// [Config.Copies] names a folder, the last good version of each rule set is
// kept there too, and a gateway that starts while its source is away starts
// from it. Without a copy [Start] fails, unless [Config.StartWithoutRules] is
// set: a gateway without rules limits nothing.
//
// A source that no longer knows a rule set has lost its data, which is not the
// same as a rule set that was deleted: only the latter ends a rule set.
package reload
