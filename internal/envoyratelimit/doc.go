// Package envoyratelimit compares FluxGate with envoyproxy/ratelimit: both read the same
// random configurations, look up the same random descriptors, and answer the same random
// sequences of calls. It is a module of its own, so that the product does not depend on
// envoyproxy/ratelimit.
package envoyratelimit
