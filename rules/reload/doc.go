// Package reload keeps the rule sets of a source in memory and up to date, for
// the engine.
//
//	source, err := filerules.Open("rules.yaml", filerules.Config{})
//	...
//	rules, err := reload.Start(ctx, source, reload.Config{})
//	...
//	engine, err := fluxgate.New(store, rules, fluxgate.WithRuleSet("api-limits"))
//
// # How a change takes effect
//
// Every half interval the heads of the rule sets in use are read, in one
// small read. Only a rule set whose head has changed is loaded: its revision, or the
// change that made it ([rules.Head]), because a source that has lost its data counts
// from 1 again. With a Redis
// client in the [Config], a reloader listens for the announcements of [Announcing], and
// reads the revisions at once. An announcement is a hint: its revision
// is not used, so a forged one causes one small read at most. While these reads
// find nothing new, the time between them grows from 10 ms to 1 s. A source that
// detects changes itself gives the same hints.
//
// A source whose content can be edited with other programs is a
// [rules.Reconciler]: every half interval it imports edits as revisions, which
// are loaded and announced. So an edit is in effect on all servers within one
// interval, under every strategy but Off.
//
// A new version replaces the old one atomically. Requests in flight finish with
// the rules they started with, and consumption carries over.
//
// # Errors
//
// Rules that cannot be read or are invalid change nothing: the last good version
// stays in effect, and [Reloader.Status] has the error. If [Config.Copies] names a
// folder, the last good version of each rule set is saved there, and [Start] uses
// it until its source answers, and then loads what the source has. Without a copy Start fails, unless
// [Config.StartWithoutRules] is set: without rules nothing is limited.
//
// A rule set that was deleted in the source is no longer applied. A rule set that is
// missing without a deletion stays in effect: the source may have lost its data.
package reload
