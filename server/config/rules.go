package config

import "time"

// Rules configures the rule source.
type Rules struct {
	// Source is where rules come from. auto is the file if rules.file is set, else
	// the files of rules.envoy-files, else the server of rules.xds.server, else MongoDB
	// if mongo.uri is set, else Redis.
	Source string `key:"source" default:"auto" oneof:"auto file envoy-files xds mongo redis"`
	// File is a file with rules, or a folder of such files.
	File string `key:"file"`
	// EnvoyFiles is a configuration file of envoyproxy/ratelimit, or a folder of
	// such files. See envoy.md.
	EnvoyFiles string `key:"envoy-files"`
	// MaxRuleSets is the maximum number of rule sets in memory, and of files in a folder of
	// rules. If more are in use, the least recently used rule set is dropped, and loaded
	// again at its next request.
	MaxRuleSets int `key:"max-rule-sets" default:"10000" min:"1" max:"100000"`
	// Copies is a folder for the last valid version of each rule set, to start
	// from while the source is unavailable. It also has a copy of the overrides of rules that are
	// not in Redis or MongoDB, from which they are restored if Redis has lost them. Empty means no copies.
	Copies string `key:"copies"`

	XDS XDS `key:"xds"`
}

// XDS is a control plane, such as Envoy Gateway, that serves rate limit configurations
// over xDS. See envoy.md.
type XDS struct {
	// Server is its address, as host:port.
	Server string `key:"server"`
	// NodeID is the name of this server there. Envoy Gateway expects envoy-ratelimit.
	NodeID string `key:"node-id" default:"fluxgate"`
	// NodeMetadata is sent with the node id.
	NodeMetadata map[string]string `key:"node-metadata"`
	// StartWithoutRules makes the server ready before the first configuration has arrived.
	// Until then ratelimit.missing-rule-behavior decides requests.
	StartWithoutRules bool `key:"start-without-rules"`
	// MaxMessage is the maximum size of all configurations together, in bytes.
	MaxMessage int64 `key:"max-message" default:"16777216" min:"65536" max:"268435456"`

	TLS XDSTLS `key:"tls"`
}

// XDSTLS configures TLS of the connection to the xDS server. The files are read for each
// connection.
type XDSTLS struct {
	// Enabled uses TLS.
	Enabled bool `key:"enabled"`
	// CAFile is a PEM file of CA certificates that verify the xDS server. Empty means those
	// of the system.
	CAFile string `key:"ca-file" is:"ca"`
	// CertFile is the client certificate with its chain as PEM. Empty means none.
	CertFile string `key:"cert-file"`
	// KeyFile is the private key of the client certificate as PEM.
	KeyFile string `key:"key-file"`
	// ServerName is the name in the server's certificate. Empty means the host of
	// rules.xds.server.
	ServerName string `key:"server-name" is:"host"`
}

// RuleFiles returns the file or the folder with the rules, "" if rules are not in files.
func (c *Config) RuleFiles() string {
	switch c.RuleSource() {
	case SourceFile:
		return c.Rules.File
	case SourceEnvoyFiles:
		return c.Rules.EnvoyFiles
	}
	return ""
}

// NeedsDefaultRuleSet reports whether the default rule set must exist. Configurations of
// envoyproxy/ratelimit do not need it, since Envoy names the domain in every call.
func (c *Config) NeedsDefaultRuleSet() bool {
	source := c.RuleSource()
	return source != SourceEnvoyFiles && source != SourceXDS || c.isSet("ratelimit.default-rule-set-id")
}

// Reload configures how changes of rules are detected.
type Reload struct {
	// Enabled loads changed rules. If it is false, rules are read once.
	Enabled bool `key:"enabled" default:"true"`
	// Strategy is how changes are detected: POLLING reads revisions, REDIS_PUBSUB
	// listens for announcements, AUTO does both if Redis is enabled.
	Strategy string `key:"strategy" default:"AUTO" oneof:"AUTO POLLING REDIS_PUBSUB"`
	// PollingInterval is the longest time until a change is in effect without
	// announcements. Revisions are read twice per interval.
	PollingInterval time.Duration `key:"polling-interval" default:"30s" min:"100ms" max:"24h"`
	// Jitter is the longest random delay before the rules are read. It keeps many servers
	// from reading at once. 0s means no delay.
	Jitter time.Duration `key:"jitter" default:"50ms" min:"0s" max:"1m"`
	// Channel is the Redis channel of announcements.
	Channel string `key:"channel" default:"fluxgate:rule-reload" required:"yes"`
	// ResetBucketsOnReload resets the buckets of a rule set to full when it changes.
	// Every caller may then send a burst.
	ResetBucketsOnReload bool `key:"reset-buckets-on-reload"`
}

// The values of rules.source.
const (
	SourceAuto       = "auto"
	SourceFile       = "file"
	SourceEnvoyFiles = "envoy-files"
	SourceXDS        = "xds"
	SourceMongo      = "mongo"
	SourceRedis      = "redis"
)

// RuleSource returns where the rules come from: file, envoy-files, xds, mongo or redis. It
// returns "" if no source is configured.
func (c *Config) RuleSource() string {
	switch {
	case c.Rules.Source != SourceAuto && c.Rules.Source != "":
		return c.Rules.Source
	case c.Rules.File != "":
		return SourceFile
	case c.Rules.EnvoyFiles != "":
		return SourceEnvoyFiles
	case c.Rules.XDS.Server != "":
		return SourceXDS
	case c.Mongo.Enabled && (c.Mongo.URI != "" || c.isSet("mongo.enabled")):
		return SourceMongo
	case c.Redis.Enabled:
		return SourceRedis
	}
	return ""
}

// Mongo is MongoDB as the control plane, which holds the rules.
type Mongo struct {
	// Enabled reads the rules from MongoDB if uri is set, and rules.file,
	// rules.envoy-files and rules.xds.server are not.
	Enabled bool `key:"enabled" default:"true"`
	// URI is the address of MongoDB, such as mongodb://localhost:27017/fluxgate. Without it
	// the rules are in Redis.
	URI URI `key:"uri"`
	// UsernameFile is a file with the user name, instead of one in the URI. It is read again
	// when it changes.
	UsernameFile string `key:"username-file" is:"credential"`
	// PasswordFile is a file with the password, instead of one in the URI. It is read again
	// when it changes, see security.md.
	PasswordFile string `key:"password-file" is:"credential"`
	// Database is the database with the rules. If the URI names a database, that is
	// the default.
	Database string `key:"database" default:"fluxgate"`
	// Collection is the collection with the rules. The other collections are named
	// after it.
	Collection string `key:"collection" default:"rate_limit_rules"`
}
