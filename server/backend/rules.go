package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/xdsrules"
	"github.com/fluxgate/fluxgate/server/config"
)

// RuleSource is the rule source of a configuration.
type RuleSource struct {
	rules.Source
	Kind string // file, envoy-files, xds, mongo or redis
}

// OpenRules opens the rule source. client is for rules in Redis, and is not closed with it.
func OpenRules(ctx context.Context, c *config.Config, client redis.UniversalClient, log *slog.Logger) (*RuleSource, error) {
	source, err := openSource(ctx, c, client, log)
	if err != nil {
		return nil, err
	}
	return &RuleSource{Source: source, Kind: c.RuleSource()}, nil
}

func openSource(ctx context.Context, c *config.Config, client redis.UniversalClient, log *slog.Logger) (rules.Source, error) {
	files := filerules.Config{MaxFiles: c.Rules.MaxRuleSets}
	switch c.RuleSource() {
	case config.SourceFile:
		return filerules.Open(c.Rules.File, files)
	case config.SourceEnvoyFiles:
		return envoyrules.Open(c.Rules.EnvoyFiles, files, log)
	case config.SourceXDS:
		return openXDS(ctx, &c.Rules.XDS, log)
	case config.SourceMongo:
		return openMongo(ctx, c, log)
	case config.SourceRedis:
		return redisrules.New(client, redisrules.Config{Prefix: c.Redis.Prefix})
	}
	return nil, errors.New("no rule source: set rules.file, rules.envoy-files, rules.xds.server or mongo.uri, or enable redis")
}

func openMongo(ctx context.Context, c *config.Config, log *slog.Logger) (rules.Source, error) {
	m := &c.Mongo
	options := mongorules.Config{Database: m.Database, Collection: m.Collection, Lease: c.Reload.PollingInterval, Logger: log}
	if m.PasswordFile != "" {
		user, _ := m.URI.Login()
		files := &credentials{below: "mongo", user: user, userFile: m.UsernameFile, passwordFile: m.PasswordFile, log: log}
		var err error
		if options.Credentials, err = files.open(); err != nil {
			return nil, err
		}
	}
	return mongorules.Open(ctx, string(m.URI), options)
}

func openXDS(ctx context.Context, c *config.XDS, log *slog.Logger) (rules.Source, error) {
	x := xdsrules.Config{
		Server: c.Server, NodeID: c.NodeID, NodeMetadata: c.NodeMetadata, MaxMessage: int(c.MaxMessage), Logger: log,
	}
	if t := &c.TLS; t.Enabled {
		x.TLS = &xdsrules.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	}
	return xdsrules.Open(ctx, x)
}

// Close closes the connections of the source.
func (s *RuleSource) Close() error {
	if closer, ok := s.Source.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Editor returns the source for operators. If there is a client, changes are announced with
// it, so that no server waits for its next poll.
func (s *RuleSource) Editor(client redis.UniversalClient, channel string, log *slog.Logger) (rules.Editor, error) {
	switch source := s.Source.(type) {
	case rules.Editor:
		return reload.Announcing(source, client, reload.AnnounceConfig{Channel: channel, Source: "admin", Logger: log}), nil
	case admin.Files:
		return admin.ReadOnly(source), nil
	}
	return nil, fmt.Errorf("rules in %s cannot be listed or edited", s.Kind)
}

// NotForProxies returns the ids of rules whose limits of concurrent requests are not enforced for
// requests of proxies, as a text for a message.
func NotForProxies(c *config.Config, set *rules.Set) string {
	if c.RateLimit.ProxySlots == config.HoldSlots {
		return ""
	}
	return idsOf(set, func(r *rules.Rule) bool { return slices.ContainsFunc(r.Bands, isConcurrency) })
}

func isConcurrency(b rules.Band) bool { return b.Kind == rules.Concurrency }

// NeverWait returns the ids of rules with WAIT_FOR_REFILL if waiting is off, as a text for a
// message. Requests over their limits are rejected.
func NeverWait(c *config.Config, set *rules.Set) string {
	if c.WaitForRefill.Enabled {
		return ""
	}
	return idsOf(set, func(r *rules.Rule) bool { return r.OnLimitExceed == rules.WaitForRefill })
}

// idsOf returns the ids of the enabled rules that are chosen, as a text for a message.
func idsOf(set *rules.Set, chosen func(*rules.Rule) bool) string {
	const most = 10
	var ids []string
	for r := range set.Rules() {
		if r.Disabled || !chosen(&r) {
			continue
		}
		if len(ids) == most {
			return strings.Join(ids, ", ") + ", …"
		}
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, ", ")
}
