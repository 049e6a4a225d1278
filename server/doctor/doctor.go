// Package doctor checks everything that a configuration names, and says what to do about each
// problem.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/xdsrules"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// Severity is the result of a check.
type Severity string

// The severities.
const (
	Good  Severity = "ok"
	Watch Severity = "watch" // works, but should be changed
	Wrong Severity = "wrong"
)

// Finding is the result of one check, and what to do about it.
type Finding struct {
	Part     string   `json:"part"`
	Severity Severity `json:"verdict"`
	Says     string   `json:"says"`
	Remedy   string   `json:"remedy,omitempty"`
}

// docsURL is the documentation: who runs the binary does not have its files.
const docsURL = "https://fluxgate.github.io/fluxgate/"

var discard = slog.New(slog.DiscardHandler)

// diagnosis collects findings.
type diagnosis struct {
	config   *config.Config
	noRedis  bool // Redis cannot be used
	fleet    []admin.Server
	findings []Finding
}

func (d *diagnosis) add(severity Severity, part, remedy, format string, args ...any) {
	d.findings = append(d.findings, Finding{Part: part, Severity: severity, Says: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Diagnose connects to everything that a configuration names and checks it. Each
// part that does not answer takes some seconds.
func Diagnose(ctx context.Context, c *config.Config) []Finding {
	redislog.Use(discard, slog.LevelDebug)
	d := &diagnosis{config: c}
	if err := c.Check(); err != nil {
		d.add(Wrong, "configuration", "correct it, and try it with fluxgate config check", "%v", err)
		return d.findings
	}
	d.add(Good, "configuration", "", "valid")
	var client redis.UniversalClient
	if c.Redis.Enabled {
		client = d.redis(ctx)
		if client != nil {
			defer func() { _ = client.Close() }()
		}
	} else {
		d.add(Watch, "redis", "enable redis if there is more than one server", "disabled: limits apply to each server separately")
	}
	d.rules(ctx, client)
	return d.findings
}

// redis checks the data plane.
func (d *diagnosis) redis(ctx context.Context) redis.UniversalClient {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	login, err := backend.RedisCredentials(&d.config.Redis, discard)
	var client redis.UniversalClient
	if err == nil {
		client, err = backend.OpenRedis(ctx, &d.config.Redis, login, discard)
	}
	if err != nil {
		d.add(Wrong, "redis", "correct redis.uri and the files of redis", "%v", err)
		return nil
	}
	store, err := backend.OpenStore(ctx, d.config, login, false, discard)
	switch {
	case errors.Is(err, redisstore.ErrDisagrees):
		d.add(Wrong, "fleet state", "use the settings of the other servers, or another redis.prefix", "%v", err)
		return client
	case err != nil:
		d.noRedis = true
		d.add(Wrong, "redis", redisRemedy(err), "%s: %v", d.config.Redis.URI, err)
		d.servers(0)
		return client
	}
	defer func() { _ = store.Close() }()
	d.add(Good, "scripts", "", "Redis runs the scripts")
	d.add(Good, "fleet state", "", "this server agrees with the others")
	d.servers(store.Counted())
	d.reports(ctx, store)
	h := store.Health(ctx)
	for _, n := range h.Nodes {
		if n.Err != nil {
			d.add(Wrong, "redis", redisRemedy(n.Err), "%s: %v", n.Addr, n.Err)
			continue
		}
		d.add(Good, "redis", "", "%s is a %s of version %s, %s", n.Addr, n.Role, n.Version, h.Mode)
		d.version(n.Addr, n.Version)
		d.latency(n.Addr, n.Latency)
	}
	for _, warning := range h.Warnings {
		d.add(Watch, "redis", "", "%s", warning)
	}
	if h.Uncovered > 0 {
		d.add(Wrong, "redis", "repair the cluster: redis-cli --cluster check", "%d shards have no server", h.Uncovered)
	}
	return client
}

// redisRemedy returns what to do about an error of Redis.
func redisRemedy(err error) string {
	var network net.Error
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return "give the user the ACL in " + docsURL + "redis#acl"
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return "correct the user and password in redis.uri"
	case redis.HasErrorPrefix(err, "OOM"):
		return "add memory (maxmemory), or shorten limits: " + docsURL + "redis#memory-and-sizing"
	case redis.HasErrorPrefix(err, "READONLY"):
		return "redis.uri names a replica: name the master, or use Sentinel or a cluster, which find it"
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		return "repair the cluster: redis-cli --cluster check"
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return "check that Redis runs there and that this machine can reach it"
	}
	return "see " + docsURL + "redis#errors-and-what-to-do"
}

// servers says what share of the limits a server counts that starts while Redis does not
// answer. It does not matter to a server that is alone.
func (d *diagnosis) servers(counted int) {
	assumed, from := backend.AssumedServers(d.config)
	switch {
	case !backend.SharesByServers(d.config):
	case assumed > 0:
		if counted > 0 && counted != assumed {
			from += fmt.Sprintf("; Redis counts %d now", counted)
		}
		d.add(Good, "servers", "", "a server that starts without Redis applies 1/%d of each limit: %s", assumed, from)
	case counted != 1:
		d.add(Watch, "servers", "set redis.expected-servers",
			"number of servers unknown: a server that starts without Redis applies the whole limit")
	}
}

func (d *diagnosis) version(addr, version string) {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		d.add(Wrong, "redis", "use Redis 6.2 or later, or Valkey", "%s has version %s", addr, version)
	}
}

func (d *diagnosis) latency(addr string, latency time.Duration) {
	timeout := d.config.Redis.Timeout
	latency = latency.Round(time.Microsecond)
	means := "each decision in Redis takes as long"
	if latency > lease.MaxRoundTrip && d.config.Redis.Leases != config.LeasesOff {
		means += fmt.Sprintf("; local tokens are not used above %v", lease.MaxRoundTrip)
	}
	switch {
	case latency > timeout/2:
		d.add(Wrong, "latency", "move Redis closer, or set redis.timeout to at least four times as long",
			"%s answers after %v, and redis.timeout is %v: decisions fail on a busy network, and %s", addr, latency, timeout, means)
	case latency > timeout/10:
		d.add(Watch, "latency", "move Redis closer, if callers wait too long",
			"%s answers after %v, and redis.timeout is %v: %s", addr, latency, timeout, means)
	default:
		d.add(Good, "latency", "", "%s answers after %v", addr, latency)
	}
}

// rules checks the rule source.
func (d *diagnosis) rules(parent context.Context, client redis.UniversalClient) {
	ctx, cancel := context.WithTimeout(parent, 10*time.Second)
	defer cancel()
	id := d.config.RateLimit.DefaultRuleSetID
	source, err := backend.OpenRules(ctx, d.config, client, discard)
	if err != nil {
		d.add(Wrong, "rules", "check that the rule source is available", "%v", err)
		return
	}
	defer func() { _ = source.Close() }()
	if client != nil && !d.noRedis && d.config.Reload.Enabled && d.config.Reload.Strategy != string(reload.Polling) {
		d.announcements(ctx, client)
	}
	if xds, ok := source.Source.(*xdsrules.Source); ok {
		d.xds(ctx, xds)
		return
	}
	version, err := source.Load(ctx, id)
	path := d.config.RuleFiles()
	switch {
	case errors.Is(err, rules.ErrNotFound) && !d.config.NeedsDefaultRuleSet():
		d.add(Good, "rules", "", "the files in %s are valid", path)
	case errors.Is(err, rules.ErrNotFound) && path != "":
		d.add(Wrong, "rules", "write one, or set another ratelimit.default-rule-set-id", "there is no rule set %q in %s", id, path)
	case errors.Is(err, rules.ErrNotFound):
		d.add(Wrong, "rules",
			"create one with fluxgate rules apply -f FILE, or set rules.file, mongo.uri or another ratelimit.default-rule-set-id",
			"there is no rule set %q in %s", id, source.Kind)
	case err != nil && d.noRedis && source.Kind == config.SourceRedis:
		d.add(Watch, "rules", "", "not checked: they are in Redis; running servers keep the last valid ones")
		return
	case err != nil && unavailable(ctx, source, id, err):
		d.add(Wrong, "rules", sourceRemedy(source.Kind, err)+"; running servers keep the last valid rules",
			"cannot read the rules in %s: %v", source.Kind, err)
		return
	case errors.Is(err, fs.ErrNotExist):
		d.add(Wrong, "rules", "write it, or correct rules."+source.Kind, "%v", err)
	case err != nil:
		d.add(Wrong, "rules", "correct the rules; running servers keep the last valid ones", "%v", err)
	default:
		d.add(Good, "rules", "", "rule set %q in %s is at revision %v, rules: %d",
			id, source.Kind, rules.ShownRevision(version.Revision), version.RuleSet.Len())
		d.content(version)
	}
	d.sets(parent, source.Source, id)
	if mongo, ok := source.Source.(*mongorules.Source); ok {
		ctx, cancel := context.WithTimeout(parent, 5*time.Second)
		defer cancel()
		if err := mongo.Indexes(ctx); err != nil {
			d.add(Watch, "indexes", "let the user of mongo.uri create indexes", "%v", err)
		} else {
			d.add(Good, "indexes", "", "present")
		}
	}
}

// xds checks an xDS server.
func (d *diagnosis) xds(ctx context.Context, source *xdsrules.Source) {
	server := d.config.Rules.XDS.Server
	ids, err := source.IDs(ctx)
	if err != nil {
		d.add(Wrong, "rules", "check that the server runs there, and that rules.xds.node-id and rules.xds.tls are right; "+
			"running servers keep the last valid rules", "%v", err)
		return
	}
	d.add(Good, "rules", "", "%s has %d rate limit configurations", server, len(ids))
	d.page(ctx, source, ids)
	if id := d.config.RateLimit.DefaultRuleSetID; d.config.NeedsDefaultRuleSet() && !slices.Contains(ids, id) {
		d.add(Wrong, "rules", "set another ratelimit.default-rule-set-id", "there is no rule set %q at %s", id, server)
	}
}

// unavailable reports whether a rule set could not be loaded because its source
// does not answer, and not because it is invalid.
func unavailable(ctx context.Context, s *backend.RuleSource, id string, err error) bool {
	var invalid *rules.ValidationError
	if s.Kind == config.SourceFile || s.Kind == config.SourceEnvoyFiles || errors.As(err, &invalid) {
		return false
	}
	_, failure := s.Revisions(ctx, []string{id})
	return failure != nil
}

// sourceRemedy returns what to do about a source that does not answer.
func sourceRemedy(kind string, err error) string {
	if kind == config.SourceRedis {
		return redisRemedy(err)
	}
	return "check that MongoDB runs there and that this machine can reach it"
}
