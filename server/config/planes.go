package config

import "time"

// Redis is the data plane: where the buckets are. Without it they are in the
// process, and every server counts for itself.
type Redis struct {
	// Enabled keeps the buckets in Redis.
	Enabled bool `key:"enabled"`
	// URI is where Redis is: redis://user:password@host:6379/0, rediss:// with
	// TLS, several hosts with commas for a cluster, or
	// redis-sentinel://host1,host2/master-name.
	URI URI `key:"uri"`
	// Mode is how the servers stand to each other. auto finds out.
	Mode string `key:"mode" oneof:"auto standalone sentinel cluster"`
	// Timeout bounds a decision, waiting for a connection included.
	Timeout time.Duration `key:"timeout" min:"1ms" max:"1m"`
	// Prefix begins every key in Redis.
	Prefix string `key:"prefix"`
	// ClusterNodes are nodes of a cluster as host:port, in the place of the
	// hosts in the URI.
	ClusterNodes []URI `key:"cluster-nodes"`
	// KeySecretFile holds a secret of at least 16 bytes that is mixed into the
	// keys, so that who can read Redis cannot tell whose bucket is whose. All
	// servers must have the same.
	KeySecretFile string `key:"key-secret-file"`
	// Shards is over how many slots of a cluster the keys are spread. All
	// servers must have the same.
	Shards int `key:"shards" min:"1" max:"4096"`

	Pool Pool `key:"pool"`
}

// Pool is the connections to each server of Redis.
type Pool struct {
	// MaxTotal is how many connections there are at most.
	MaxTotal int `key:"max-total" min:"1" max:"10000"`
	// MaxIdle is how many of them stay open when nobody needs them. The default
	// is less where max-total is.
	MaxIdle int `key:"max-idle" min:"0" max:"10000"`
	// MinIdle is how many are kept open for the next who does. The default is
	// less where max-idle is.
	MinIdle int `key:"min-idle" min:"0" max:"10000"`
}

// Mongo is MongoDB as the control plane: where the rules are.
type Mongo struct {
	// Enabled lets the rules come from MongoDB, unless rules.file is given.
	Enabled bool `key:"enabled"`
	// URI is where MongoDB is.
	URI URI `key:"uri"`
	// Database is the one with the rules. The default is the one that the URI
	// names, if it names one.
	Database string `key:"database"`
	// Collection is the one with the rules. Those beside it are named after it.
	Collection string `key:"collection"`
}

// Where rules come from.
const (
	SourceAuto  = "auto"
	SourceFile  = "file"
	SourceMongo = "mongo"
	SourceRedis = "redis"
)

// Rules is where the rules come from.
type Rules struct {
	// Source is where rules come from. auto is the file if one is named, else
	// MongoDB if that is enabled, else Redis.
	Source string `key:"source" oneof:"auto file mongo redis"`
	// File is a file with rules, or a folder of them.
	File string `key:"file"`
	// Copies is a folder for the last good version of each rule set, to start
	// from while the source is away. Empty means that none are kept.
	Copies string `key:"copies"`
}

// Reload is how changes of rules are noticed.
type Reload struct {
	// Enabled follows changes. Without it rules are read once.
	Enabled bool `key:"enabled"`
	// Strategy is how: POLLING asks for revisions, REDIS_PUBSUB listens for
	// announcements, AUTO does both where there is Redis.
	Strategy string `key:"strategy" oneof:"AUTO POLLING REDIS_PUBSUB"`
	// PollingInterval is within what time a change is in effect without
	// announcements: revisions are asked for every half of it.
	PollingInterval time.Duration `key:"polling-interval" min:"100ms" max:"24h"`
	// Jitter is the longest random delay before the rules are read, so that a
	// thousand servers do not ask at once. 0s means none.
	Jitter time.Duration `key:"jitter" min:"0s" max:"1m"`
	// Channel is where changes are announced in Redis.
	Channel string `key:"channel"`
	// ResetBucketsOnReload makes the buckets of a rule set full when it
	// changes: a free burst for everyone.
	ResetBucketsOnReload bool `key:"reset-buckets-on-reload"`
}

// RuleSource is where the rules come from: file, mongo or redis, and nothing
// if there is nowhere.
func (c *Config) RuleSource() string {
	switch {
	case c.Rules.Source != SourceAuto && c.Rules.Source != "":
		return c.Rules.Source
	case c.Rules.File != "":
		return SourceFile
	case c.Mongo.Enabled:
		return SourceMongo
	case c.Redis.Enabled:
		return SourceRedis
	}
	return ""
}
