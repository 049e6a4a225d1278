// Package match finds the rules that apply to a request.
//
// [Compile] turns a list of rules, highest priority first, into an immutable
// [Matcher] that any number of goroutines may share. [Matcher.Match] costs what
// the path and the matching rules cost, not what the rule set costs: ten thousand
// rules are about as quick as a hundred, and an ordinary request allocates nothing.
//
// # How a request is matched
//
//  1. The path is split in each way in which routers may split it ([Readings]), so
//     that no spelling of a path steps around a rule. An ordinary path has one reading.
//  2. All patterns of all rules form one trie by segments. It is walked once for each
//     reading, with the set of nodes that the path may have reached so far.
//  3. Rules that share a path are filed there by the value of one of their
//     conditions (a user, a tenant attribute, a network …), so that a request
//     meets only the rules filed under its own values.
//  4. Each of these few candidates is checked in full, and groups, shadow rules
//     and final rules are settled in priority order.
//  5. What applies in any reading applies. Whether a final rule ends all of them is
//     told apart ([Matches]), since an exemption needs all.
//
// [Explain] says the same the slow way, and of every rule why it does not apply.
//
// # Patterns
//
// A pattern is a path in which "*" stands for exactly one segment and "**" for
// any number of them, including none: /api/** matches /api, and /**/export
// matches /export and /a/b/export. A star is always a whole segment. Patterns are
// cleaned as paths are, so /a//b/ equals /a/b, and a literal star is written %2A.
// Letters are case-sensitive unless the rule ignores case.
//
// # Hostile requests
//
// The work is bounded by the length of the request: at most 24 readings, and one
// step for each segment and node in reach, without recursion. What follows a "**" is tried only near the end of
// the path, so the one thing that multiplies with a path's length is the number of
// patterns in which a "**" is followed by another with something in between; a pattern
// may have at most four.
//
// # What is left to others
//
// The package knows nothing of limits, keys or decisions. It does not sort rules,
// does not bound how many may match, and takes the client's address and identity
// as given.
package match
