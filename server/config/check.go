package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/redisuri"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// Check reports whether the configuration makes sense: ranges, addresses,
// patterns, files that must be there, and what goes together. It looks at the
// secrets' files, and connects to nothing. The error is an [*Error] that has
// everything, each problem where the value came from.
func (c *Config) Check() error {
	k := &checker{Config: c}
	k.ranges()
	k.redis()
	k.mongo()
	k.ruleSource()
	k.rateLimit()
	k.reload()
	k.wait()
	k.listeners()
	k.tls()
	k.hosts("server.http-hosts", c.Server.HTTPHosts)
	k.hosts("server.admin-hosts", c.Server.AdminHosts)
	k.auth()
	k.audit()
	k.forwardAuth()
	k.secretFile("settle.receipt-secret-file", c.Settle.ReceiptSecretFile)
	if c.Telemetry.OTLPEndpoint != "" {
		k.refuseErr("telemetry.otlp-endpoint", checkHTTP(c.Telemetry.OTLPEndpoint))
	}
	k.found.sort()
	return k.found.orNil()
}

// CheckRulesFile reports whether the rules.file is there, if rules come from a
// file. A server starts without it, so it is not part of Check.
func (c *Config) CheckRulesFile() error {
	k := &checker{Config: c}
	if c.RuleSource() == SourceFile {
		if _, err := os.Stat(c.Rules.File); err != nil {
			k.refuse("rules.file", "names a file or folder that cannot be read: %v", err)
		}
	}
	return k.found.orNil()
}

type checker struct {
	*Config
	found Error
}

func (k *checker) refuse(place, format string, args ...any) {
	k.found.add(k.problem(place, fmt.Sprintf(format, args...)))
}

func (k *checker) refuseErr(place string, err error) {
	if err != nil {
		k.refuse(place, "%v", err)
	}
}

// ranges looks at what the tags say, again for a configuration that was not
// loaded but made.
func (k *checker) ranges() {
	for _, e := range leaves() {
		v := e.value(k.Config)
		if len(e.oneOf) > 0 && v.Kind() == reflect.String {
			e.setWord(reflect.New(e.typ).Elem(), v.String(), func(message string) { k.refuse(e.path, "%s", message) })
		}
		if e.min == "" && e.max == "" {
			continue
		}
		if !e.within(v) {
			k.refuse(e.path, "must be %s to %s, not %v", e.min, e.max, shown(v))
		}
	}
}

// within reports whether a number or a time is in its range.
func (e *entry) within(v reflect.Value) bool {
	least, most := reflect.New(e.typ).Elem(), reflect.New(e.typ).Elem()
	e.setText(least, e.min, mustNot(e))
	e.setText(most, e.max, mustNot(e))
	if v.CanFloat() {
		return v.Float() >= least.Float() && v.Float() <= most.Float()
	}
	return v.Int() >= least.Int() && v.Int() <= most.Int()
}

func (k *checker) redis() {
	r := &k.Redis
	if strings.ContainsAny(r.Prefix, "{}") || r.Prefix == "" || len(r.Prefix) > 64 {
		k.refuse("redis.prefix", "must have 1 to 64 bytes and no braces")
	}
	if r.Pool.MaxIdle > r.Pool.MaxTotal {
		k.refuse("redis.pool.max-idle", "must not be above max-total, which is %d", r.Pool.MaxTotal)
	}
	if r.Pool.MinIdle > r.Pool.MaxIdle {
		k.refuse("redis.pool.min-idle", "must not be above max-idle, which is %d", r.Pool.MaxIdle)
	}
	k.secretFile("redis.key-secret-file", r.KeySecretFile)
	if !r.Enabled {
		return
	}
	for i, node := range r.ClusterNodes {
		if !isHostPort(string(node)) {
			k.refuse(fmt.Sprintf("redis.cluster-nodes[%d]", i), "must be of the form host:port: credentials go into redis.uri")
		}
	}
	uri, err := redisuri.Parse(string(r.URI))
	if err != nil {
		k.refuse("redis.uri", "%v", err)
		return
	}
	several := len(uri.Hosts) > 1 || len(r.ClusterNodes) > 0
	switch {
	case r.Mode == "sentinel" && !uri.IsSentinel():
		k.refuse("redis.mode", "sentinel needs a redis.uri that begins with redis-sentinel://")
	case r.Mode != "sentinel" && r.Mode != "auto" && uri.IsSentinel():
		k.refuse("redis.mode", "%s cannot be with a redis.uri that begins with redis-sentinel://", r.Mode)
	case uri.IsSentinel() && len(r.ClusterNodes) > 0:
		k.refuse("redis.cluster-nodes", "cannot be with a redis.uri that begins with redis-sentinel://")
	case r.Mode == "standalone" && several:
		k.refuse("redis.mode", "standalone cannot be with several hosts")
	case len(r.ClusterNodes) > 0 && uri.Path != "" && uri.Path != "0":
		k.refuse("redis.uri", "names a database: a cluster has only database 0")
	}
}

func (k *checker) mongo() {
	if k.RuleSource() != SourceMongo {
		return
	}
	_, err := parseMongo(k.Mongo.URI)
	k.refuseErr("mongo.uri", err)
	if d := k.Mongo.Database; d == "" || len(d) > 63 || strings.ContainsAny(d, "/\\. \"$*<>:|?") {
		k.refuse("mongo.database", "cannot be the name of a database")
	}
	if n := k.Mongo.Collection; n == "" || len(n) > 100 || strings.Contains(n, "$") || strings.HasPrefix(n, "system.") {
		k.refuse("mongo.collection", "cannot be the name of a collection")
	}
}

// ruleSource sees to it that there is one way alone to tell where rules come
// from.
func (k *checker) ruleSource() {
	r := &k.Rules
	switch {
	case r.Source == SourceFile && r.File == "":
		k.refuse("rules.source", "file needs rules.file")
	case (r.Source == SourceMongo || r.Source == SourceRedis) && r.File != "":
		k.refuse("rules.file", "is not read, since rules.source is %s: leave one of them out", r.Source)
	case r.Source == SourceMongo && !k.Mongo.Enabled:
		k.refuse("rules.source", "mongo needs mongo.enabled")
	case r.Source == SourceRedis && !k.Redis.Enabled:
		k.refuse("rules.source", "redis needs redis.enabled")
	case r.Source == SourceAuto && r.File != "" && k.Mongo.Enabled && k.said("mongo.enabled"):
		k.refuse("rules.file", "is given, and mongo.enabled is too: say with rules.source which of them has the rules")
	case k.RuleSource() == "":
		k.refuse("rules.source", "rules must come from somewhere: name a file in rules.file, or enable mongo or redis")
	}
}

func (k *checker) rateLimit() {
	r := &k.RateLimit
	if r.DefaultRuleSetID != "" && !fluxgate.ValidID(r.DefaultRuleSetID) {
		k.refuse("ratelimit.default-rule-set-id", "must have 1 to 64 letters, digits, dots, dashes and underscores")
	}
	k.patterns("ratelimit.include-patterns", r.IncludePatterns)
	k.patterns("ratelimit.exclude-patterns", r.ExcludePatterns)
	k.proxies("ratelimit.trusted-proxies", r.TrustedProxies)
	k.proxies("server.admin-trusted-proxies", k.Server.AdminTrustedProxies)
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		if !fluxgate.ValidID(name) {
			k.refuse("ratelimit.attributes", "%s: the name of an attribute has 1 to 64 letters, digits, dots, dashes and underscores", showName(name))
		}
		if !isHeaderName(r.Attributes[name]) {
			k.refuse("ratelimit.attributes", "%s: must be the name of a header, such as X-Tier", showName(name))
		}
	}
	if len(r.Attributes) > 0 && !k.ForwardAuth.Enabled {
		k.refuse("ratelimit.attributes", "would never be read: forward-auth.enabled is false, and other callers send attributes themselves")
	}
	if r.ClientIPHeader != "" {
		k.header("ratelimit.client-ip-header", r.ClientIPHeader)
		if len(r.TrustedProxies) == 0 {
			k.refuse("ratelimit.client-ip-header", "would never be read: say in ratelimit.trusted-proxies who may write it")
		}
	}
}

func (k *checker) proxies(key string, proxies []string) {
	for i, proxy := range proxies {
		if _, err := clientip.New(clientip.Config{TrustedProxies: []string{proxy}}); err != nil {
			k.refuse(fmt.Sprintf("%s[%d]", key, i), "%s", unless(proxy, afterColon(err)))
		}
	}
}

func (k *checker) patterns(key string, patterns []string) {
	for i, pattern := range patterns {
		if _, err := match.CompilePaths([]string{pattern}); err != nil {
			k.refuse(fmt.Sprintf("%s[%d]", key, i), "%s", unless(pattern, err.Error()))
		}
	}
}

// unless is a message that quotes a value, unless that may have a secret in it.
func unless(value, message string) string {
	if mayHoldSecret(value) {
		return "cannot be read, and is not shown since it may have a secret in it"
	}
	return message
}

// afterColon is an error without what was being done.
func afterColon(err error) string {
	_, after, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return err.Error()
	}
	return after
}

func (k *checker) reload() {
	r := &k.Reload
	if r.Strategy == "REDIS_PUBSUB" && !k.Redis.Enabled {
		k.refuse("reload.strategy", "REDIS_PUBSUB needs redis.enabled")
	}
	if r.Channel == "" {
		k.refuse("reload.channel", "must name a channel")
	}
}

func (k *checker) wait() {
	w := &k.WaitForRefill
	if k.RateLimit.DefaultPolicy == fluxgate.WaitForRefill && !w.Enabled {
		k.refuse("ratelimit.default-policy", "WAIT_FOR_REFILL needs wait-for-refill.enabled")
	}
	if w.Enabled && w.MaxWaitTime >= k.Server.Timeouts.Write {
		k.refuse("wait-for-refill.max-wait-time", "must be less than server.timeouts.write, which is %s: who waits longer gets no answer",
			period.Format(k.Server.Timeouts.Write))
	}
	if t := &k.Server.Timeouts; t.ReadHeader > t.Read {
		k.refuse("server.timeouts.read-header", "must not be above read, which is %s", period.Format(t.Read))
	}
}

// mustNot is for the values of tags, which a test has read.
func mustNot(e *entry) note {
	return func(_ *yamltree.Node, _, message string) { panic("config: range of " + e.path + " " + message) }
}
