package reload

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Strategy is how changes are detected.
type Strategy string

// The strategies.
const (
	// Polling reads revisions every half interval.
	Polling Strategy = "POLLING"
	// PubSub listens for announcements in Redis, and reads revisions each time
	// it has subscribed, so that no announcement is missed after a lost
	// connection. A connection on which nothing arrives for 2 seconds, not even
	// an answer, is lost. While announcements cannot be received ([Reloader.Silence])
	// it polls as Polling does, and otherwise every ten intervals: a writer that was
	// cut off after its change announces nothing. A source that other programs can edit
	// ([rules.Reconciler]) is polled as by Polling.
	PubSub Strategy = "REDIS_PUBSUB"
	// Auto combines both: announcements are fast, and polling misses nothing.
	Auto Strategy = "AUTO"
	// Off reads each rule set once. Only failed reads are retried, every
	// interval.
	Off Strategy = "OFF"
)

// DefaultChannel is the channel on which changes are announced.
const DefaultChannel = "fluxgate:rule-reload"

// Config configures a [Reloader]. Its zero value polls every 30 seconds.
type Config struct {
	// RuleSets are loaded before Start returns and are never dropped. Start
	// fails if one of them cannot be loaded and has no copy. Others are loaded
	// at their first request.
	RuleSets []string

	// StartWithoutRules lets Start succeed when a rule set cannot be loaded and
	// has no copy. Until it is loaded, the engine's missing-rule behavior
	// applies to its requests; by default they are allowed. Use it for a
	// process that must start while its rule source is unavailable.
	StartWithoutRules bool

	// Strategy is how changes are detected. Empty means Auto with Redis, and
	// Polling without.
	Strategy Strategy
	// Interval is the time in which a change takes effect. Revisions are polled,
	// and a [rules.Reconciler] is called, every half interval. 0 means 30s.
	Interval time.Duration
	// Jitter is the longest random delay before the source is read, so that
	// many processes do not read at once. 0 means 50ms, negative means none.
	Jitter time.Duration
	// Timeout bounds each read of the source. 0 means 5s.
	Timeout time.Duration
	// FirstWait is how long the first request of a rule set waits for it, and
	// Start if it has copies or may start without rules. After that the copy
	// or the missing-rule behavior applies, while loading continues. 0 means
	// 1s.
	FirstWait time.Duration

	// Redis is where announcements are received. Channel empty means
	// DefaultChannel.
	Redis   redis.UniversalClient
	Channel string

	// Copies is the folder for the last good version of each rule set. Empty
	// means that no copies are kept.
	Copies string

	// MaxRuleSets is the maximum number of rule sets in memory; the least recently
	// used one is dropped. A quarter as many unknown ids are kept. 0 means
	// 10,000.
	MaxRuleSets int

	// Overrides are those of the engine ([fluxgate.WithOverrides]), which are kept up to date
	// if the source has some. Nil means that none are read.
	Overrides *fluxgate.Overrides
	// OverrideSource is where overrides are read, if not from the source of the rules. See
	// package rules/overridestore.
	OverrideSource rules.Overrides

	// ResetBuckets is the store in which the buckets of a rule set are reset
	// when a new version of it is loaded. A shared store resets once for all
	// processes. Nil, which is recommended, means that consumption carries
	// over: after a reset every caller may send a burst.
	ResetBuckets Resetter

	// Loaded is called with every version of a rule set that takes effect. It
	// may be nil.
	Loaded func(set *rules.Set)

	// Logger gets a line for each loaded version and for each problem. Nil
	// means slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Strategy == "" {
		c.Strategy = Polling
		if c.Redis != nil {
			c.Strategy = Auto
		}
	}
	c.Interval = cmp.Or(c.Interval, 30*time.Second)
	c.Jitter = max(0, cmp.Or(c.Jitter, 50*time.Millisecond))
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.FirstWait = cmp.Or(c.FirstWait, time.Second)
	c.MaxRuleSets = cmp.Or(c.MaxRuleSets, 10_000)
	c.Channel = cmp.Or(c.Channel, DefaultChannel)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	switch c.Strategy {
	case Polling, Off:
	case PubSub, Auto:
		if c.Redis == nil {
			return c, fmt.Errorf("strategy %s needs a Redis client", c.Strategy)
		}
	default:
		return c, fmt.Errorf("unknown strategy %q: use %s, %s, %s or %s", c.Strategy, Polling, PubSub, Auto, Off)
	}
	for _, id := range c.RuleSets {
		if !rules.ValidID(id) {
			return c, fmt.Errorf("%q is not a valid rule set id", id)
		}
	}
	switch {
	case c.Interval < 10*time.Millisecond:
		return c, errors.New("the interval must be at least 10ms")
	case c.Timeout < 0 || c.FirstWait < 0:
		return c, errors.New("the settings Timeout and FirstWait must not be negative")
	case c.MaxRuleSets < len(c.RuleSets) || c.MaxRuleSets < 0:
		return c, fmt.Errorf("%d rule sets are configured, more than MaxRuleSets (%d)", len(c.RuleSets), c.MaxRuleSets)
	}
	return c, nil
}
