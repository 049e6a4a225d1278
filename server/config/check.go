package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/redisuri"
	"github.com/fluxgate/fluxgate/rules"
)

// Check reports whether the configuration is valid: ranges, addresses, patterns,
// files that must exist, and values that contradict each other. It reads the
// files of secrets, and connects to nothing. The error is an [*Error] with all
// problems and the position of each.
func (c *Config) Check() error {
	k := &checker{Config: c}
	k.tags()
	k.redis()
	k.mongo()
	k.ruleSource()
	k.xds()
	k.rateLimit()
	k.reload()
	k.wait()
	k.events()
	k.listeners()
	k.tls()
	k.auth()
	k.forwardAuth()
	return errorOf(&k.found)
}

type checker struct {
	*Config
	found Error
}

func (k *checker) refuse(place, format string, args ...any) {
	k.found.Add(k.from.problem(place, fmt.Sprintf(format, args...)))
}

func (k *checker) refuseErr(place string, err error) {
	if err != nil {
		k.refuse(place, "%v", err)
	}
}

// tags checks all values against the tags of their fields.
func (k *checker) tags() {
	for _, s := range keys() {
		s.check(s.in(k.Config), func(inside, message string) { k.refuse(s.path+inside, "%s", message) })
	}
}

func (k *checker) redis() {
	r := &k.Redis
	if strings.ContainsAny(r.Prefix, "{}") || r.Prefix == "" || len(r.Prefix) > 64 {
		k.refuse("redis.prefix", "must have 1 to 64 bytes and no braces")
	}
	if !r.Enabled {
		return
	}
	k.keyPair("redis.tls", r.TLS.CertFile, r.TLS.KeyFile)
	uri, err := redisuri.Parse(string(r.URI))
	if err != nil {
		k.refuse("redis.uri", "%v", err)
		return
	}
	if !uri.IsTLS() && r.TLS != (RedisTLS{}) {
		k.refuse("redis.uri", "must begin with rediss:// or rediss-sentinel://, since redis.tls is set")
	}
	user, password := uri.Login()
	if uri.IsSentinel() {
		user, password = "", "" // the sentinels have them
	}
	k.credentialFiles("redis", user, password, r.UsernameFile, r.PasswordFile)
	several := len(uri.Hosts) > 1 || len(r.ClusterNodes) > 0
	switch {
	case r.Mode == "sentinel" && !uri.IsSentinel():
		k.refuse("redis.mode", "sentinel needs a redis.uri that begins with redis-sentinel://")
	case r.Mode != "sentinel" && r.Mode != "auto" && uri.IsSentinel():
		k.refuse("redis.mode", "%s cannot be used with a redis.uri that begins with redis-sentinel://", r.Mode)
	case uri.IsSentinel() && len(r.ClusterNodes) > 0:
		k.refuse("redis.cluster-nodes", "cannot be used with a redis.uri that begins with redis-sentinel://")
	case r.Mode == "standalone" && several:
		k.refuse("redis.mode", "standalone cannot be used with several hosts")
	case len(r.ClusterNodes) > 0 && uri.Path != "" && uri.Path != "0":
		k.refuse("redis.uri", "names a database: a cluster has only database 0")
	}
}

// credentialFiles refuses files beside credentials in a URI.
func (k *checker) credentialFiles(below, user, password, userFile, passwordFile string) {
	switch {
	case password != "" && passwordFile != "":
		k.refuse(below+".password-file", "is set, and %s.uri has a password: remove one of them (a user name alone is user:@host)", below)
	case user != "" && userFile != "":
		k.refuse(below+".username-file", "is set, and %s.uri has a user name: remove one of them", below)
	case userFile != "" && passwordFile == "":
		k.refuse(below+".username-file", "needs %s.password-file", below)
	}
}

func (k *checker) mongo() {
	if k.RuleSource() != SourceMongo {
		return
	}
	if k.Mongo.URI == "" {
		k.refuse("mongo.uri", "is required for rules in MongoDB; for rules in Redis set rules.source to redis")
	} else {
		_, err := parseMongo(k.Mongo.URI)
		k.refuseErr("mongo.uri", err)
		user, password := k.Mongo.URI.Login()
		k.credentialFiles("mongo", user, password, k.Mongo.UsernameFile, k.Mongo.PasswordFile)
		if k.Mongo.PasswordFile != "" && user == "" && k.Mongo.UsernameFile == "" {
			k.refuse("mongo.password-file", "needs a user name, in mongo.uri or mongo.username-file")
		}
	}
	if d := k.Mongo.Database; d == "" || len(d) > 63 || strings.ContainsAny(d, "/\\. \"$*<>:|?") {
		k.refuse("mongo.database", "is not a valid database name")
	}
	if n := k.Mongo.Collection; n == "" || len(n) > 100 || strings.Contains(n, "$") || strings.HasPrefix(n, "system.") {
		k.refuse("mongo.collection", "is not a valid collection name")
	}
}

// ruleSource refuses settings that name no source of rules, or two.
func (k *checker) ruleSource() {
	r := &k.Rules
	for _, one := range []struct{ source, key, value string }{
		{SourceFile, "rules.file", r.File},
		{SourceEnvoyFiles, "rules.envoy-files", r.EnvoyFiles},
		{SourceXDS, "rules.xds.server", r.XDS.Server},
	} {
		switch {
		case one.value != "" && k.RuleSource() != one.source:
			k.refuse(one.key, "is not used, since rules.source is %s: remove one of them", k.RuleSource())
		case one.value != "" && r.Source == SourceAuto && k.Mongo.Enabled && k.isSet("mongo.enabled"):
			k.refuse(one.key, "is set, and so is mongo.enabled: choose one with rules.source")
		case one.value == "" && k.RuleSource() == one.source:
			k.refuse("rules.source", "%s needs %s", one.source, one.key)
		}
	}
	switch {
	case r.Source == SourceMongo && !k.Mongo.Enabled:
		k.refuse("rules.source", "mongo needs mongo.enabled")
	case r.Source == SourceRedis && !k.Redis.Enabled:
		k.refuse("rules.source", "redis needs redis.enabled")
	case k.RuleSource() == "":
		k.refuse("rules.source", "no rule source is configured: "+
			"set rules.file, rules.envoy-files, rules.xds.server, mongo.uri or redis.enabled")
	}
}

func (k *checker) xds() {
	x := &k.Rules.XDS
	if _, port, err := net.SplitHostPort(x.Server); x.Server != "" && (err != nil || port == "" || !isHostPort(x.Server)) {
		k.refuse("rules.xds.server", "must be of the form host:port")
	}
	k.keyPair("rules.xds.tls", x.TLS.CertFile, x.TLS.KeyFile)
	if t := x.TLS; !t.Enabled && t != (XDSTLS{}) {
		k.refuse("rules.xds.tls.enabled", "must be true, since other settings of rules.xds.tls are set")
	}
}

func (k *checker) rateLimit() {
	r := &k.RateLimit
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		if !rules.ValidID(name) {
			k.refuse("ratelimit.attributes", "%s: the name of an attribute has %s", showName(name), idForm)
		}
		if !isHeaderName(r.Attributes[name]) {
			k.refuse("ratelimit.attributes", "%s: must be the name of a header, such as X-Tier", showName(name))
		}
	}
	if len(r.Attributes) > 0 && !k.ForwardAuth.Enabled {
		k.refuse("ratelimit.attributes", "would never be used: forward-auth.enabled is false, and other callers send attributes themselves")
	}
	if r.ClientIPHeader != "" && len(r.TrustedProxies) == 0 {
		k.refuse("ratelimit.client-ip-header", "would never be used: set ratelimit.trusted-proxies to the proxies that write it")
	}
	if strings.EqualFold(r.ClientIPHeader, "Forwarded") {
		k.refuse("ratelimit.client-ip-header", "Forwarded is not supported: use X-Forwarded-For")
	}
}

func (k *checker) reload() {
	if k.Reload.Strategy == "REDIS_PUBSUB" && !k.Redis.Enabled {
		k.refuse("reload.strategy", "REDIS_PUBSUB needs redis.enabled")
	}
}

func (k *checker) wait() {
	w := &k.WaitForRefill
	if k.RateLimit.DefaultPolicy == rules.WaitForRefill && !w.Enabled {
		k.refuse("ratelimit.default-policy", "WAIT_FOR_REFILL needs wait-for-refill.enabled")
	}
	if w.Enabled && w.MaxWaitTime >= k.Server.Timeouts.Write {
		k.refuse("wait-for-refill.max-wait-time",
			"must be less than server.timeouts.write, which is %s: a request that waits longer gets no response",
			period.Format(k.Server.Timeouts.Write))
	}
}

func (k *checker) events() {
	if k.Events.SecretFile != "" && k.Events.Webhook == "" {
		k.refuse("events.secret-file", "would never be used: set events.webhook")
	}
}
