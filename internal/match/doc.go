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
//     that no spelling of a path avoids a rule. An ordinary path has one reading.
//  2. All patterns of all rules form a trie by segments, and those of rules that ignore
//     case a second one. Each is walked once for each reading, with the set of nodes
//     that the path may have reached so far.
//  3. Rules that share a pattern are indexed by the value of one of their
//     conditions (a user, a tenant attribute, a network, a descriptor …), so that a
//     request is compared only with the rules that have its own values.
//  4. All conditions of these few candidates are checked, and groups, shadow rules
//     and final rules are evaluated in priority order.
//  5. A rule that applies in any reading applies. [Matches] says separately whether a
//     final rule ends the evaluation of every reading, since an exemption needs all.
//
// [Matcher.Explain] looks at every rule and says why it does not apply.
//
// # Patterns
//
// A pattern is a path in which "*" matches exactly one segment and "**"
// any number of them, including none: /api/** matches /api, and /**/export
// matches /export and /a/b/export. A star is always a whole segment. Patterns are
// cleaned as paths are, so /a//b/ equals /a/b, and a literal star is written %2A.
// Letters are case-sensitive unless the rule ignores case.
//
// # Hostile requests
//
// The work is bounded by the length of the request: at most 24 readings, and one
// step for each segment and node in reach. What follows a "**" is tried only near
// the end of the path. Only patterns with two or more "**" are tried at
// every segment; a pattern may have at most four. Of a descriptor no more entries are
// read than rules ask for.
//
// # Rules compared with each other
//
// [Compare] tells which rules hold whenever another one holds, by walking the trie with
// a pattern in place of a path and the index with the values of a condition in place of
// those of a request. It finds a thousand rules that differ in one value as quickly as a
// request does.
//
// # What is left to others
//
// The package knows nothing of limits, keys or decisions. It does not sort rules,
// does not bound how many may match, and takes the client's address and identity
// as given.
package match
