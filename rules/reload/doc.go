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
// Every half interval the revisions of the rule sets in use are read, which is
// one small read. Only a rule set whose revision has changed is loaded. With a
// Redis client in the [Config] an [Announcer] can announce a change, and
// reloaders that listen read the revisions at once. An announcement is a hint:
// the revision in it is not used, so that a forged one causes one small read at
// most. While the reads that follow hints find nothing new, the gap between them
// grows from 10 ms to 1 s. A source that notices changes itself gives the same
// hints.
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
// Rules that cannot be read or are not valid change nothing: the last good
// version stays in effect, and [Reloader.Status] has the error. If
// [Config.Copies] names a folder, the last good version of each rule set is
// saved there, and a gateway that starts while its source is away uses it. Without a copy [Start] fails, unless [Config.StartWithoutRules] is
// set: a gateway without rules limits nothing.
//
// A rule set that was deleted in the source ends. One that the source does not
// know any more stays in effect: the source may have lost its data.
package reload
