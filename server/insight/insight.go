package insight

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// Fleet stores the reports of all servers. Redis implements it.
type Fleet interface {
	// ID returns the id of this server.
	ID() string
	// WriteReport writes the report of this server. The report expires.
	WriteReport(ctx context.Context, report []byte, lasts time.Duration) error
	// Leave says that this server ends: it is not lost.
	Leave(ctx context.Context) error
	// Reports returns the reports of all live servers by their ids, and LostReports the last
	// ones of servers that were lost.
	Reports(ctx context.Context, maxBytes int) (map[string][]byte, error)
	LostReports(ctx context.Context, maxBytes int) (map[string]redisstore.LostReport, error)
}

// Config configures an [Insight]. Its zero value works.
type Config struct {
	// Name is the name of the server. Empty means that of the host.
	Name string
	// Version is the version of the build.
	Version string
	// Durations returns the histogram of the time to decide. Nil means none.
	Durations func() Durations
	// Revisions returns the revisions of the rule sets in effect. Nil means none.
	Revisions func() map[string]int64
	// Draining returns whether the server is shutting down. Nil means never.
	Draining func() bool
	// Health returns the status of the server, and why it is not up. The status is empty if
	// it is unknown. Nil means that it is always unknown.
	Health func() (status, reason string)
	// Nodes returns the state of the nodes of Redis. Nil means none.
	Nodes func() []admin.RedisNode
	// Fleet returns the reports of all servers, or an error while they are unavailable. Nil
	// means that there are no other servers.
	Fleet func() (Fleet, error)
	// Logger gets warnings about reports. Nil means slog.Default().
	Logger *slog.Logger
}

// Insight records the decisions of a server, and returns live numbers of the whole fleet.
type Insight struct {
	config   Config
	recorder *Recorder
	start    time.Time
	fleet    fleetCache
	failed   *logthrottle.Throttle // log lines about reports
}

// New returns an insight over the numbers of a recorder with an engine. It has numbers only
// while Run runs.
func New(recorder *Recorder, config Config) *Insight {
	if config.Name == "" {
		config.Name, _ = os.Hostname()
	}
	config.Logger = cmp.Or(config.Logger, slog.Default())
	recorder.durations = config.Durations
	return &Insight{config: config, recorder: recorder, start: time.Now().UTC(), failed: logthrottle.New(time.Minute)}
}

// Run records and reports until ctx ends.
func (i *Insight) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.reportUntil(ctx)
	}()
	i.recorder.run(ctx)
	<-done
}

// show returns the key of a caller as the admin API shows it.
func (i *Insight) show(c *ownCaller) string {
	return i.recorder.config.Engine().ShowKey(store.Key{RuleSet: c.ruleSet, Rule: c.rule, ID: c.id})
}

// View is the part of the numbers that a caller of the admin API may see.
type View struct {
	// All is whether the caller may see all rule sets, and numbers without a rule set.
	All bool
	// RuleSet reports whether the caller may see a rule set.
	RuleSet func(id string) bool
	// Identities reports whether the caller may see the identities of the callers of a rule set.
	Identities func(ruleSet string) bool
}

// Everything is the view of callers that may see all.
func Everything() View {
	all := func(string) bool { return true }
	return View{All: true, RuleSet: all, Identities: all}
}

// rule reports whether the caller may see a rule of a rule set. Rules that are not counted
// separately may be of any.
func (v *View) rule(ruleSet string) bool {
	return v.All || ruleSet != meter.Other && v.RuleSet(ruleSet)
}
