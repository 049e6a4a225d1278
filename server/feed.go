package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/overridestore"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
)

// feed is where the rules come from, and the rules in effect.
type feed struct {
	config *config.Config
	log    *slog.Logger
	redis  redis.UniversalClient // nil without Redis
	source *backend.RuleSource
	// rules and strategy, how changes are detected, are set by load.
	rules    *reload.Reloader
	strategy reload.Strategy
	// overrides are those of rules from a read-only source, and nil with any other.
	overrides *overridestore.Store
}

// openFeed opens the source of the rules, and Redis for announcements.
func openFeed(
	ctx context.Context, c *config.Config, login backend.Credentials, log *slog.Logger, closers *closers,
) (*feed, error) {
	client, err := backend.OpenRedis(ctx, &c.Redis, login, log)
	if err != nil {
		return nil, err
	}
	if client != nil {
		closers.add(client.Close)
	}
	source, err := backend.OpenRules(ctx, c, client, log)
	if err != nil {
		return nil, fmt.Errorf("opening the rules: %w", err)
	}
	closers.add(source.Close)
	return &feed{config: c, log: log, redis: client, source: source}, nil
}

// load loads the rules and keeps them current. buckets are reset if rules change and the
// configuration says so.
func (f *feed) load(ctx context.Context, buckets reload.Resetter, closers *closers) (err error) {
	c := f.config
	if err := f.openOverrides(ctx, closers); err != nil {
		return err
	}
	ids := f.first(ctx)
	reloading := reload.Config{
		RuleSets:          ids,
		Strategy:          reload.Strategy(c.Reload.Strategy),
		Interval:          c.Reload.PollingInterval,
		Jitter:            c.Reload.Jitter,
		Redis:             f.redis,
		Channel:           c.Reload.Channel,
		Copies:            c.Rules.Copies,
		Logger:            f.log,
		Loaded:            f.warnOfWaiting,
		MaxRuleSets:       max(c.Rules.MaxRuleSets, len(ids)),
		StartWithoutRules: true, // the source may be unavailable
	}
	if reloading.Jitter == 0 {
		reloading.Jitter = -1 // no jitter
	}
	if !c.Reload.Enabled {
		reloading.Strategy = reload.Off
	}
	if f.redis == nil && reloading.Strategy == reload.Auto {
		reloading.Strategy = reload.Polling
	}
	f.strategy = reloading.Strategy
	if f.overrides != nil {
		reloading.OverrideSource = f.overrides
	}
	if c.Reload.ResetBucketsOnReload {
		reloading.ResetBuckets = buckets
	}
	if f.rules, err = reload.Start(ctx, f.source.Source, reloading); err == nil {
		closers.add(f.rules.Close)
	}
	return err
}

// openOverrides opens the overrides of rules that come from a read-only source.
func (f *feed) openOverrides(ctx context.Context, closers *closers) (err error) {
	if _, ok := f.source.Source.(rules.OverrideEditor); ok {
		return nil
	}
	options := overridestore.Config{
		Rules: f.source.Source, Folder: f.config.Rules.Copies, Interval: f.config.Reload.PollingInterval / 2, Logger: f.log,
	}
	if f.redis != nil {
		if options.Shared, err = redisrules.NewOverrides(f.redis, redisrules.Config{Prefix: f.config.Redis.Prefix}); err != nil {
			return err
		}
	}
	if f.overrides, err = overridestore.Open(ctx, options); err == nil {
		closers.add(f.overrides.Close)
	}
	return err
}

// overrideEditor returns the overrides of rules from a read-only source for operators, or nil.
func (f *feed) overrideEditor() rules.OverrideEditor {
	if f.overrides == nil {
		return nil
	}
	announce := reload.AnnounceConfig{Channel: f.config.Reload.Channel, Source: "admin", Logger: f.log}
	return reload.AnnouncingOverrides(f.overrides, f.redis, announce)
}

// first returns the rule sets to load at the start. Others are loaded at their first request.
func (f *feed) first(ctx context.Context) []string {
	byDefault := []string{f.config.RateLimit.DefaultRuleSetID}
	if f.config.NeedsDefaultRuleSet() {
		return byDefault
	}
	if f.source.Kind == config.SourceXDS {
		return nil // its domains change, and are loaded from memory
	}
	if files, ok := f.source.Source.(*filerules.Source); ok {
		if domains, err := files.IDs(ctx); err == nil { // else loading the default reports the error
			return domains
		}
	}
	return byDefault
}

// warnOfWaiting logs which rules of a rule set wait in vain for WAIT_FOR_REFILL.
func (f *feed) warnOfWaiting(set *rules.Set) {
	if ids := backend.NeverWait(f.config, set); ids != "" {
		f.log.Warn("rules have WAIT_FOR_REFILL, but wait-for-refill.enabled is false: their requests are rejected at once",
			"ruleSet", set.ID(), "rules", ids)
	}
}

// editor returns the source of the rules for operators.
func (f *feed) editor() (rules.Editor, error) {
	return f.source.Editor(f.redis, f.config.Reload.Channel, f.log)
}

// revisions returns the revisions of the rule sets in effect, copies on disk included: they
// may differ from what other servers have.
func (f *feed) revisions() map[string]int64 {
	all := map[string]int64{}
	for _, s := range f.rules.Status() {
		if s.Source != reload.FromNowhere {
			all[s.RuleSet] = s.Revision
		}
	}
	return all
}
