package config

import "time"

// Redis is the data plane, which holds the buckets. Without Redis each server keeps
// them in memory, and counts alone.
type Redis struct {
	// Enabled keeps the buckets in Redis.
	Enabled bool `key:"enabled" default:"true"`
	// URI is the address of Redis: redis://user:password@host:6379/0, rediss:// with
	// TLS, several hosts with commas for a cluster, or
	// redis-sentinel://host1,host2/master-name.
	URI URI `key:"uri" default:"redis://localhost:6379"`
	// UsernameFile is a file with the user name, instead of one in the URI. It is read again
	// when it changes.
	UsernameFile string `key:"username-file" is:"credential"`
	// PasswordFile is a file with the password, instead of one in the URI. It is read again
	// when it changes, see security.md. Sentinels get the credentials of the URI.
	PasswordFile string `key:"password-file" is:"credential"`
	// Mode is the topology of the Redis servers. auto detects it.
	Mode string `key:"mode" default:"auto" oneof:"auto standalone sentinel cluster"`
	// Timeout bounds a decision, including the wait for a connection.
	Timeout time.Duration `key:"timeout" default:"100ms" min:"1ms" max:"1m"`
	// Prefix begins every key in Redis.
	Prefix string `key:"prefix" default:"fluxgate"`
	// ClusterNodes are nodes of a cluster as host:port, instead of the hosts in
	// the URI.
	ClusterNodes []URI `key:"cluster-nodes" is:"node"`
	// KeySecretFile is a file with a secret of at least 16 bytes. Identities are
	// hashed with it, so that keys in Redis do not reveal callers. All servers
	// must have the same secret.
	KeySecretFile string `key:"key-secret-file" is:"secret"`
	// Shards is the number of slots of a cluster that the keys are spread over.
	// All servers must have the same number.
	Shards int `key:"shards" default:"64" min:"1" max:"4096"`
	// Leases is whether a server may answer from memory. auto repeats rejections and takes
	// local tokens of busy buckets, except for rules with consistency strict. off asks
	// Redis for every decision. See scaling.md.
	Leases string `key:"leases" default:"auto" oneof:"auto off"`
	// ExpectedServers is how many servers share Redis. ratelimit.fallback-share auto uses it
	// until Redis has counted them, or the last count in rules.copies if that is larger.
	// 0 means unknown: a server that starts without Redis then applies the whole limit.
	ExpectedServers int `key:"expected-servers" min:"0" max:"1000"`

	Pool Pool     `key:"pool"`
	TLS  RedisTLS `key:"tls"`
}

// RedisTLS configures the certificates of connections to Redis. redis.uri must begin
// with rediss://.
type RedisTLS struct {
	// CAFile is a PEM file of CA certificates that verify the Redis servers. Empty means
	// those of the system.
	CAFile string `key:"ca-file" is:"ca"`
	// CertFile is the client certificate with its chain as PEM. Empty means none.
	CertFile string `key:"cert-file"`
	// KeyFile is the private key of the client certificate as PEM. All files are read for
	// each connection.
	KeyFile string `key:"key-file"`
}

// MaxServers is the maximum number of servers that Redis counts.
const MaxServers = 1_000

// LeasesOff is the value of redis.leases that asks Redis for every decision.
const LeasesOff = "off"

// Pool is the connection pool of each Redis server.
type Pool struct {
	// MaxTotal is the maximum number of connections. A value below 24 counts as 24.
	MaxTotal int `key:"max-total" default:"50" min:"1" max:"10000"`
	// MaxIdle is the maximum number of idle connections. A value below 16, the maximum
	// number of concurrent calls, counts as 16.
	MaxIdle int `key:"max-idle" default:"10" min:"0" max:"10000"`
	// MinIdle is the minimum number of idle connections, at most max-idle.
	MinIdle int `key:"min-idle" default:"5" min:"0" max:"10000"`
}
