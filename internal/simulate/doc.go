// Package simulate replays access logs through a rule set: what would these rules have
// limited?
//
// A line of a log becomes a [fluxgate.Request] with a time. The matcher, the engine and
// the store in memory that a server uses decide it, on a clock that follows the log. Two
// rule sets can be replayed side by side; then the report has their difference.
//
// Files named format_ parse one format each. All memory is bounded. Whatever a log says is
// untrusted, and lines that cannot be used are counted and reported.
package simulate
