package insight

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/fluxgate/fluxgate/admin"
)

// Config configures an [Insight].
type Config struct {
	// Name is the name of the server. Empty means that of the host.
	Name string
	// Version is the version of the build.
	Version string
}

// Insight answers what happens now.
type Insight struct {
	config Config
	start  time.Time
}

// New returns an insight.
func New(config Config) *Insight {
	if config.Name == "" {
		config.Name, _ = os.Hostname()
	}
	return &Insight{config: config, start: time.Now().UTC()}
}

// Live returns what happens now.
func (i *Insight) Live(_ context.Context, q admin.LiveQuery, _ View) (*admin.Live, error) {
	empty := []*float64{}
	return &admin.Live{
		Scope: cmp.Or(q.Scope, admin.ScopeFleet), Servers: 1, StepSeconds: 2, End: time.Now().UTC(), Rules: []admin.RuleRates{},
		Series: admin.Series{Allowed: empty, Limited: empty, Denied: empty, Degraded: empty, Waiting: empty, Shadow: empty, P50Ms: empty, P99Ms: empty},
	}, nil
}

// Fleet returns the servers that share Redis.
func (i *Insight) Fleet(context.Context, View) (*admin.Fleet, error) {
	self := admin.Server{
		ID: "0", Name: i.config.Name, Version: i.config.Version, Self: true, StartedAt: i.start, ReportedAt: time.Now().UTC(),
		Revisions: map[string]int64{}, Redis: []admin.RedisNode{},
	}
	return &admin.Fleet{Servers: []admin.Server{self}, Differing: []admin.DifferingRevisions{}}, nil
}

// Callers returns the heaviest callers of late.
func (i *Insight) Callers(_ context.Context, q admin.CallersQuery, _ View) (*admin.Callers, error) {
	return &admin.Callers{Outcome: cmp.Or(q.Outcome, admin.CallersLimited), Since: i.start, Callers: []admin.Caller{}}, nil
}
