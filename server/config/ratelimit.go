package config

import (
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// MissingRule is the decision for a request that no rule matches.
type MissingRule string

// The decisions.
const (
	MissingAllow  MissingRule = "ALLOW"
	MissingReject MissingRule = "REJECT"
)

// RateLimit configures decisions.
type RateLimit struct {
	// FilterEnabled limits requests of forward-auth. If it is false, all of them are
	// allowed.
	FilterEnabled bool `key:"filter-enabled" default:"true"`
	// FilterOrder has no effect. It is accepted for existing configurations.
	FilterOrder int `key:"filter-order" default:"1" min:"-2147483648" max:"2147483647"`
	// DefaultRuleSetID is the rule set of requests that name none.
	DefaultRuleSetID string `key:"default-rule-set-id" default:"api-limits" is:"rule-set"`
	// IncludePatterns are the paths that the filter limits: * is one segment,
	// ** any number. An empty list means all.
	IncludePatterns []string `key:"include-patterns" is:"pattern"`
	// ExcludePatterns are paths that the filter does not limit, even if they match
	// include-patterns. A path with several readings is excluded if all readings are.
	ExcludePatterns []string `key:"exclude-patterns" is:"pattern"`
	// AmbiguousPaths is the treatment of paths that routers may read in more
	// than one way. match applies the limits of all readings. refuse answers 400
	// to an escaped slash, a dot segment or an empty segment before the end.
	AmbiguousPaths fluxgate.AmbiguousPaths `key:"ambiguous-paths" default:"match" oneof:"match refuse"`
	// MissingRuleBehavior is the decision for a request that no rule matches.
	MissingRuleBehavior MissingRule `key:"missing-rule-behavior" default:"ALLOW" oneof:"ALLOW REJECT"`
	// DefaultPolicy is the policy of rules without one. WAIT_FOR_REFILL needs
	// wait-for-refill.enabled.
	DefaultPolicy rules.Policy `key:"default-policy" default:"REJECT" oneof:"REJECT WAIT_FOR_REFILL"`
	// TrustedProxies are addresses and networks of proxies whose header with the
	// client's address is trusted.
	TrustedProxies []string `key:"trusted-proxies" is:"proxy"`
	// ClientIPHeader is the header with the client's address. Empty means
	// X-Forwarded-For.
	ClientIPHeader string `key:"client-ip-header" is:"header"`
	// Attributes are the headers that become attributes of a request, by the name of
	// the attribute: {tier: X-Tier}. Only forward-auth reads them. The proxy must set
	// or remove each of these headers; otherwise clients can choose their limits.
	// A request with two values of such a header is rejected.
	Attributes map[string]string `key:"attributes"`
	// IPv6Prefix is the number of bits of an IPv6 address that identify a caller.
	IPv6Prefix int `key:"ipv6-prefix" default:"64" min:"1" max:"128"`
	// ProxySlots is what limits of concurrent requests do to requests of forward-auth and of
	// Envoy, which do not report the end of a request: ignore does not enforce these limits;
	// hold keeps each slot for the whole hold of its limit.
	ProxySlots string `key:"proxy-slots" default:"ignore" oneof:"ignore hold"`
	// OnFailure is the failure mode of rules without one, while Redis is
	// unavailable: local counts in the process, open allows, closed rejects.
	OnFailure rules.OnFailure `key:"on-failure" default:"local" oneof:"local open closed"`
	// FallbackShare is the share of each limit that a server applies while Redis
	// is unavailable: a number from 0.000001 to 1, or auto, which is 1 divided by
	// the number of servers last counted in Redis.
	FallbackShare Share `key:"fallback-share" default:"auto" is:"share" required:"yes"`
}

// HoldSlots is the value of ProxySlots that holds slots.
const HoldSlots = "hold"

// Share is a share of a limit: a number above 0 and at most 1, or ShareAuto.
type Share string

// ShareAuto is 1 divided by the number of servers.
const ShareAuto Share = "auto"

// minShare is the smallest share.
const minShare = 0.000001

// Number returns the share, and 0 for ShareAuto. ok is false if the share is
// invalid.
func (s Share) Number() (share float64, ok bool) {
	if s == ShareAuto {
		return 0, true
	}
	share, err := strconv.ParseFloat(string(s), 64)
	return share, err == nil && share >= minShare && share <= 1
}

func isShare(s string) bool {
	_, ok := Share(s).Number()
	return ok
}

// WaitForRefill bounds how long requests wait for their tokens.
type WaitForRefill struct {
	// Enabled makes requests wait under rules with the policy WAIT_FOR_REFILL.
	Enabled bool `key:"enabled"`
	// MaxWaitTime is the longest time that a request waits.
	MaxWaitTime time.Duration `key:"max-wait-time" default:"5s" min:"1ms" max:"1h"`
	// MaxConcurrentWaits is the maximum number of waiting requests. Further requests
	// are rejected. At most a tenth of this number, rounded up, wait for the same
	// bucket, unless its rule is GLOBAL.
	MaxConcurrentWaits int `key:"max-concurrent-waits" default:"100" min:"1" max:"1000000"`
}

// Settle configures receipts. With a receipt a caller reports the actual cost of a
// request afterwards.
type Settle struct {
	// ReceiptSecretFile is a file with a secret of at least 16 bytes that signs
	// receipts. Empty means a random secret; other servers then do not accept
	// receipts of this server, nor itself after a restart. Several servers need the same file.
	ReceiptSecretFile string `key:"receipt-secret-file" is:"secret"`
	// ReceiptTTL is how long a receipt is valid.
	ReceiptTTL time.Duration `key:"receipt-ttl" default:"10m" min:"1s" max:"24h"`
}

// Events configures the delivery of warnings, for limits with warnAt. Servers that share Redis
// must agree: one of them delivers for all. See llm.md.
type Events struct {
	// Webhook is the URL that each warning is posted to, as JSON. Empty means that warnings are
	// only logged. Output shows its host only.
	Webhook Webhook `key:"webhook" is:"http"`
	// SecretFile is a file with a secret of at least 16 bytes that signs what is posted. It is
	// read again for each post. Empty means no signature.
	SecretFile string `key:"secret-file" is:"secret"`
	// Identities adds the caller to warnings. Without it they have the key of the bucket only,
	// a salted hash. API keys are never added.
	Identities bool `key:"identities"`
}
