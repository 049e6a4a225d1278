package config

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Config is the configuration of a server. [Defaults] and [Load] make one.
//
// The tags of a field have the name of the key, the possible values (oneof) or the form
// (is) of a string, whether it may be empty (required) or used twice in a list (unique),
// and the range of a number or a time (min and max). The comment of a field says what
// its key means: docs/configuration.md is generated from it.
type Config struct {
	Redis         Redis         `key:"redis"`
	Mongo         Mongo         `key:"mongo"`
	Rules         Rules         `key:"rules"`
	RateLimit     RateLimit     `key:"ratelimit"`
	Reload        Reload        `key:"reload"`
	WaitForRefill WaitForRefill `key:"wait-for-refill"`
	Settle        Settle        `key:"settle"`
	Events        Events        `key:"events"`
	Server        Server        `key:"server"`
	ForwardAuth   ForwardAuth   `key:"forward-auth"`
	Envoy         Envoy         `key:"envoy"`
	Log           Log           `key:"log"`
	Telemetry     Telemetry     `key:"telemetry"`

	from *origin // nil if it was not loaded
}

// Defaults returns the default configuration.
func Defaults() Config {
	return Config{
		Redis: Redis{
			Enabled: true, URI: "redis://localhost:6379", Mode: "auto", Timeout: 100 * time.Millisecond, Prefix: "fluxgate",
			ClusterNodes: []URI{}, Shards: 64, Leases: "auto", Pool: Pool{MaxTotal: 50, MaxIdle: 10, MinIdle: 5},
		},
		Mongo: Mongo{Enabled: true, Database: "fluxgate", Collection: "rate_limit_rules"},
		Rules: Rules{
			Source: SourceAuto, MaxRuleSets: 10_000,
			XDS: XDS{NodeID: "fluxgate", NodeMetadata: map[string]string{}, MaxMessage: 16 << 20},
		},
		RateLimit: RateLimit{
			FilterEnabled: true, FilterOrder: 1, DefaultRuleSetID: "api-limits",
			IncludePatterns: []string{}, ExcludePatterns: []string{},
			AmbiguousPaths: fluxgate.MatchAmbiguous, MissingRuleBehavior: MissingAllow, DefaultPolicy: rules.Reject,
			TrustedProxies: []string{}, Attributes: map[string]string{},
			IPv6Prefix: 64, OnFailure: rules.FailLocal, FallbackShare: ShareAuto,
		},
		Reload: Reload{
			Enabled: true, Strategy: "AUTO", Channel: "fluxgate:rule-reload",
			PollingInterval: 30 * time.Second, Jitter: 50 * time.Millisecond,
		},
		WaitForRefill: WaitForRefill{MaxWaitTime: 5 * time.Second, MaxConcurrentWaits: 100},
		Settle:        Settle{ReceiptTTL: 10 * time.Minute},
		Server: Server{
			HTTP: "127.0.0.1:8080", HTTPHosts: []string{}, Admin: "127.0.0.1:9090", AdminHosts: []string{}, AdminRate: 600,
			TLS: TLS{Listeners: []string{"http", "grpc", "admin", "metrics"}, ReloadInterval: time.Minute},
			Auth: Auth{
				Tokens: []Token{}, Certificates: []Certificate{},
				OIDC: OIDC{NameClaim: "sub", RolesClaim: "roles", RolePrefix: "fluxgate-"},
			},
			Timeouts:       Timeouts{ReadHeader: 5 * time.Second, Read: 10 * time.Second, Write: 30 * time.Second, Idle: 2 * time.Minute},
			MaxConnections: 10_000, MaxBody: 64 << 10, MaxBatch: 100,
			Drain: Drain{Delay: 3 * time.Second, Timeout: 30 * time.Second},
		},
		ForwardAuth: ForwardAuth{ //nolint:gosec // names of headers, not their values
			Enabled: true, DenyStatus: 429, DenyHeader: "X-Fluxgate-Status",
			MethodHeader: "X-Forwarded-Method", URIHeader: "X-Forwarded-Uri", HostHeader: "X-Forwarded-Host",
			APIKeyHeader: "X-API-Key",
		},
		Log:       Log{Level: "info", Format: "text"},
		Telemetry: Telemetry{Metrics: true, Insight: true, SampleRatio: 0.1},
	}
}
