// Package envoyrules reads the configuration files of envoyproxy/ratelimit, the rate limit
// service of the Envoy project, as rule sets.
//
//	domain: messaging
//	descriptors:
//	  - key: message_type
//	    value: marketing
//	    descriptors:
//	      - key: to_number
//	        rate_limit: {unit: day, requests_per_unit: 5}
//
// A domain becomes a rule set with the id [RuleSetID], and each rate_limit a rule whose
// when.descriptor is the path to it. envoyproxy/ratelimit goes down one branch: at each
// level the entry with the same value, or the first wildcard that matches, or the entry
// without a value. Rules have no order, so a rule lists the values of the other branches
// under except: at most one rule of a rule set matches a descriptor.
//
// [Open] returns a rule source of files, which are read and watched like those of package
// filerules and with the same guarantees. [Parse] converts the text of one file, and
// [Convert] a configuration from elsewhere.
//
// # Differences
//
// The rules count as envoyproxy/ratelimit does, except for:
//
//   - A rejected call counts in the descriptors that are over their limits. In
//     envoyproxy/ratelimit it counts in all of its descriptors.
//   - A limit of 0 rejects every call, even with 0 hits.
//   - Weeks, months and years are those of the calendar in UTC. There they are 7, 30 and
//     365 days since 1970, so that weeks begin on Thursdays.
//   - Key and value are compared separately. There they are joined by an underscore first,
//     so that an entry with the key a and the value b also matches the descriptor a_b.
//   - A value that a caller sends with a * at its end is compared like any other. There it
//     selects the wildcard with the same text, even if another one comes first.
//   - A * in a key, or elsewhere than at the end of a value, is rejected: before March 2026
//     it is an ordinary character in envoyproxy/ratelimit, since then a wildcard. If key and
//     value are the same, it is an ordinary character, as in the names of routes that Envoy
//     Gateway writes.
package envoyrules
