package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/redislog"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// Verdict is how a part of a deployment is.
type Verdict string

// The verdicts.
const (
	Good  Verdict = "ok"
	Watch Verdict = "watch" // works, and could be better
	Wrong Verdict = "wrong"
)

// Finding is what was found about a part, and how to mend it.
type Finding struct {
	Part    string  `json:"part"`
	Verdict Verdict `json:"verdict"`
	Says    string  `json:"says"`
	Remedy  string  `json:"remedy,omitempty"`
}

// diagnosis collects findings.
type diagnosis struct {
	config   *config.Config
	findings []Finding
}

func (d *diagnosis) add(verdict Verdict, part, remedy, format string, args ...any) {
	d.findings = append(d.findings, Finding{Part: part, Verdict: verdict, Says: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Diagnose connects to everything that a configuration names and says what is
// wrong. It takes some seconds for each part that is away.
func Diagnose(ctx context.Context, c *config.Config) []Finding {
	redislog.Use(discard, slog.LevelDebug)
	d := &diagnosis{config: c}
	if err := c.Check(); err != nil {
		d.add(Wrong, "configuration", "correct it; fluxgate config check says the same", "%v", err)
		return d.findings
	}
	d.add(Good, "configuration", "", "it can be read and makes sense")
	var client redis.UniversalClient
	if c.Redis.Enabled {
		client = d.redis(ctx)
		if client != nil {
			defer func() { _ = client.Close() }()
		}
	} else {
		d.add(Watch, "redis", "enable redis if there is more than one server", "it is not used: every server counts for itself")
	}
	d.rules(ctx, client)
	d.listeners(ctx)
	return d.findings
}

// redis looks at the data plane.
func (d *diagnosis) redis(ctx context.Context) redis.UniversalClient {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := newRedisClient(ctx, &d.config.Redis)
	if err != nil {
		d.add(Wrong, "redis", "correct redis.uri", "%v", err)
		return nil
	}
	a := &App{config: d.config, log: discard}
	store, err := a.openRedis(ctx)
	switch {
	case errors.Is(err, redisstore.ErrDisagrees):
		d.add(Wrong, "fleet record", "give this server the settings of the others, or another redis.prefix", "%v", err)
		return client
	case err != nil:
		d.add(Wrong, "redis", redisRemedy(err), "%s: %v", d.config.Redis.URI, err)
		return client
	}
	defer func() { _ = store.Close() }()
	d.add(Good, "scripts", "", "Redis runs them")
	d.add(Good, "fleet record", "", "this server agrees with the others")
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
		d.add(Wrong, "redis", "mend the cluster: redis-cli --cluster check", "%d shards have no server", h.Uncovered)
	}
	d.clock(ctx, client)
	return client
}

// redisRemedy is what to do about an error of Redis.
func redisRemedy(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "NOPERM"):
		return "give the user the ACL in docs/redis.md"
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"):
		return "correct the user and password in redis.uri"
	case strings.Contains(text, "refused"), strings.Contains(text, "timeout"), strings.Contains(text, "no such host"), strings.Contains(text, "deadline"):
		return "see that Redis runs there and that this machine reaches it"
	}
	return "see docs/redis.md"
}

func (d *diagnosis) version(addr, version string) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err1 := strconv.Atoi(major)
	n, err2 := strconv.Atoi(minor)
	if err1 == nil && err2 == nil && (m < 6 || m == 6 && n < 2) {
		d.add(Wrong, "redis", "use Redis 6.2 or later, or Valkey", "%s is of version %s", addr, version)
	}
}

func (d *diagnosis) latency(addr string, latency time.Duration) {
	timeout := d.config.Redis.Timeout
	switch {
	case latency > timeout/2:
		d.add(Wrong, "latency", "move Redis closer, or raise redis.timeout", "%s answers after %v, and a decision may take %v", addr, latency.Round(time.Microsecond), timeout)
	case latency > timeout/10:
		d.add(Watch, "latency", "move Redis closer", "%s answers after %v, and a decision may take %v", addr, latency.Round(time.Microsecond), timeout)
	default:
		d.add(Good, "latency", "", "%s answers after %v", addr, latency.Round(time.Microsecond))
	}
}

// clock compares the clocks. Buckets use the clock of Redis alone, logs and
// receipts that of this machine.
func (d *diagnosis) clock(ctx context.Context, client redis.UniversalClient) {
	before := time.Now()
	theirs, err := client.Time(ctx).Result()
	if err != nil {
		d.add(Watch, "clock", redisRemedy(err), "the clock of Redis cannot be read: %v", err)
		return
	}
	ours := before.Add(time.Since(before) / 2)
	if off := theirs.Sub(ours).Abs(); off > time.Second {
		d.add(Watch, "clock", "run a time service on both machines", "Redis and this machine differ by %v; buckets go by Redis' clock alone", off.Round(time.Millisecond))
		return
	}
	d.add(Good, "clock", "", "Redis and this machine agree")
}

// rules looks at the control plane.
func (d *diagnosis) rules(ctx context.Context, client redis.UniversalClient) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	id := d.config.RateLimit.DefaultRuleSetID
	a := &App{config: d.config, log: discard}
	if err := a.openSource(ctx, client); err != nil {
		d.add(Wrong, "rules", "see that the source of the rules is there", "%v", err)
		return
	}
	defer func() { _ = a.close() }()
	version, err := a.source.Load(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNotFound) && a.source.kind == config.SourceFile:
		d.add(Wrong, "rules", "write one, or name another in ratelimit.default-rule-set-id", "there is no rule set %q in %s", id, d.config.Rules.File)
	case errors.Is(err, rules.ErrNotFound):
		d.add(Wrong, "rules", "make one with fluxgate rules apply -f FILE, or name another in ratelimit.default-rule-set-id", "there is no rule set %q in %s", id, a.source.kind)
	case err != nil && a.source.away(ctx, id, err):
		d.add(Wrong, "rules", awayRemedy(a.source.kind, err)+"; servers that run keep the last good rules", "%s, where the rules are, cannot be read: %v", a.source.kind, err)
		return
	case errors.Is(err, fs.ErrNotExist):
		d.add(Wrong, "rules", "write it, or correct rules.file", "%v", err)
	case err != nil:
		d.add(Wrong, "rules", "correct the rules; servers that run keep the last good ones", "%v", err)
	default:
		d.add(Good, "rules", "", "rule set %q in %s has %d rules at revision %d", id, a.source.kind, version.RuleSet.Len(), version.Revision)
		d.waiting(version.RuleSet)
	}
	d.sets(ctx, a.source.Source, id)
	if mongo, ok := a.source.Source.(*mongorules.Source); ok {
		if err := mongo.Indexes(ctx); err != nil {
			d.add(Watch, "indexes", "let the user create indexes, or create them: docs/rules.md", "%v", err)
		} else {
			d.add(Good, "indexes", "", "they are there")
		}
	}
}

// away reports whether a rule set could not be loaded because its source
// cannot be asked, rather than for what it says.
func (s *ruleSource) away(ctx context.Context, id string, err error) bool {
	var invalid *fluxgate.ValidationError
	if s.kind == config.SourceFile || errors.As(err, &invalid) {
		return false
	}
	_, away := s.Revisions(ctx, []string{id})
	return away != nil
}

// awayRemedy is what to do about a source that cannot be asked.
func awayRemedy(kind string, err error) string {
	if kind == config.SourceRedis {
		return redisRemedy(err)
	}
	return "see that MongoDB runs there and that this machine reaches it"
}
