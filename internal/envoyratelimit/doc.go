// Package envoyratelimit compares package envoyrules with envoyproxy/ratelimit: both read
// the same random configurations and look up the same random descriptors. It is a module
// of its own, so that the product does not depend on envoyproxy/ratelimit.
package envoyratelimit
