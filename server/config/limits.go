package config

import (
	"time"

	"github.com/fluxgate/fluxgate"
)

// MissingRule is what happens to a request that no rule matches.
type MissingRule string

// What can happen to it.
const (
	MissingAllow  MissingRule = "ALLOW"
	MissingReject MissingRule = "REJECT"
)

// RateLimit is how requests are decided.
type RateLimit struct {
	// FilterEnabled limits what is asked through forward-auth. Without it
	// everything passes there.
	FilterEnabled bool `key:"filter-enabled"`
	// FilterOrder is the filter's place among others, in a process that has
	// several. A server has one.
	FilterOrder int `key:"filter-order" min:"-2147483648" max:"2147483647"`
	// DefaultRuleSetID is the rule set of requests that name none.
	DefaultRuleSetID string `key:"default-rule-set-id"`
	// IncludePatterns are the paths that the filter limits: * is one segment,
	// ** any number. An empty list means all.
	IncludePatterns []string `key:"include-patterns"`
	// ExcludePatterns are paths that it does not limit, whatever
	// include-patterns says. A path with several readings is excluded only if
	// all of them are.
	ExcludePatterns []string `key:"exclude-patterns"`
	// AmbiguousPaths is what happens to a path that routers may read in more
	// than one way: match applies the limits of all readings, refuse answers 400
	// to an escaped slash, a dot segment or an empty segment before the end.
	AmbiguousPaths fluxgate.AmbiguousPaths `key:"ambiguous-paths" oneof:"match refuse"`
	// MissingRuleBehavior is what happens to a request that no rule matches.
	MissingRuleBehavior MissingRule `key:"missing-rule-behavior" oneof:"ALLOW REJECT"`
	// DefaultPolicy is the policy of rules that say none. WAIT_FOR_REFILL needs
	// wait-for-refill.enabled.
	DefaultPolicy fluxgate.Policy `key:"default-policy" oneof:"REJECT WAIT_FOR_REFILL"`
	// TrustedProxies are addresses and networks of proxies. What they say about
	// the client's address is believed.
	TrustedProxies []string `key:"trusted-proxies"`
	// ClientIPHeader is the header in which they say it. Empty means
	// X-Forwarded-For.
	ClientIPHeader string `key:"client-ip-header"`
	// Attributes are the headers that become attributes of a request, by the
	// attributes' names: {tier: X-Tier}. They are read through forward-auth. The
	// proxy must set each of them itself or remove what clients write there, or
	// clients choose their limits; a request with two such lines is refused.
	Attributes map[string]string `key:"attributes"`
	// IPv6Prefix is how many bits of an IPv6 address name a caller.
	IPv6Prefix int `key:"ipv6-prefix" min:"1" max:"128"`
	// OnFailure is what rules do that do not say, while Redis is away: local
	// counts in the process, open lets pass, closed refuses.
	OnFailure fluxgate.OnFailure `key:"on-failure" oneof:"local open closed"`
	// FallbackShare is the share of each limit that a server counts with while
	// Redis is away. With ten servers 0.1 keeps the sum.
	FallbackShare float64 `key:"fallback-share" min:"0.000001" max:"1"`
}

// WaitForRefill is how long requests may be held until their tokens are there.
type WaitForRefill struct {
	// Enabled lets rules with the policy WAIT_FOR_REFILL hold requests.
	Enabled bool `key:"enabled"`
	// MaxWaitTime is the longest that one is held.
	MaxWaitTime time.Duration `key:"max-wait-time" min:"1ms" max:"1h"`
	// MaxConcurrentWaits is how many are held at once. One more is rejected. At
	// most a tenth of them, rounded up, wait for the same bucket, unless its rule
	// is GLOBAL.
	MaxConcurrentWaits int `key:"max-concurrent-waits" min:"1" max:"1000000"`
}

// Settle is about the receipts with which a caller says afterwards what a
// request has really cost.
type Settle struct {
	// ReceiptSecretFile holds a secret of at least 16 bytes that receipts are
	// signed with. Empty means one that is drawn at the start, so that no other
	// server takes the receipts of this one.
	ReceiptSecretFile string `key:"receipt-secret-file"`
	// ReceiptTTL is how long a receipt can be settled.
	ReceiptTTL time.Duration `key:"receipt-ttl" min:"1s" max:"24h"`
}
