package insight

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// Fleet stores the reports of all servers. Redis implements it.
type Fleet interface {
	// ID returns the id of this server.
	ID() string
	// WriteReport writes the report of this server. The report expires.
	WriteReport(ctx context.Context, report []byte, lasts time.Duration) error
	// Reports returns the reports of all servers by their ids.
	Reports(ctx context.Context, maxBytes int) (map[string][]byte, error)
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
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
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

// Live returns the current rates.
func (i *Insight) Live(ctx context.Context, q LiveQuery, view View) *admin.Live {
	q.Limit = cmp.Or(q.Limit, 100)
	hourOfSome := q.Range == admin.RangeHour && (q.RuleSet != "" || !view.All) // reports have the sum only
	if q.Scope == admin.ScopeServer || q.Rule != "" || hourOfSome {
		return i.serverLive(&q, &view)
	}
	return i.fleetLive(ctx, &q, &view)
}

// serverLive answers for this server.
func (i *Insight) serverLive(q *LiveQuery, view *View) *admin.Live {
	r := i.recorder
	r.mu.RLock()
	defer r.mu.RUnlock()
	each, most := int64(1), seconds
	if q.Range == admin.RangeHour {
		each, most = 10, tens
	}
	of := r.span(r.selected(q, view), each, most)
	live := &admin.Live{Scope: admin.ScopeServer, StepSeconds: int(each), End: time.Unix(r.ended(each)+1, 0).UTC()}
	fill(live, []serverSeries{{&of.reportedSteps, []*reportedSeries{&of.reportedSeries}}}, most)
	live.Rules = rulesOf(r.busiest(maxRules+1), q, view)
	return live
}

// selected returns the histories that add up to what was asked for. The lock is held.
func (r *Recorder) selected(q *LiveQuery, view *View) (of []*history) {
	if q.Rule != "" {
		if found := r.rules.Entries()[ruleKey{q.RuleSet, q.Rule}]; found != nil && view.RuleSet(q.RuleSet) {
			return []*history{&found.history}
		}
		return nil
	}
	if q.RuleSet == "" && view.All {
		return []*history{&r.total}
	}
	for id, h := range r.ruleSets.Entries() {
		if (q.RuleSet == "" || q.RuleSet == id) && view.RuleSet(id) {
			of = append(of, h)
		}
	}
	return of
}

func appendUnknown(s *admin.Series) {
	for _, series := range seriesOf(s) {
		*series = append(*series, nil)
	}
	s.P50Ms, s.P99Ms = append(s.P50Ms, nil), append(s.P99Ms, nil)
}

func appendStep(s *admin.Series, n *counts, seconds, p50, p99 float64) {
	for o, series := range seriesOf(s) {
		rate := math.Round(1e4*float64(n[o])/seconds) / 1e4 // a step of a minute can be counted again
		*series = append(*series, &rate)
	}
	s.P50Ms, s.P99Ms = append(s.P50Ms, knownMs(p50)), append(s.P99Ms, knownMs(p99))
}

// seriesOf returns the series in the order of the classes.
func seriesOf(s *admin.Series) [classes]*[]*float64 {
	return [classes]*[]*float64{&s.Allowed, &s.Limited, &s.Denied, &s.Degraded, &s.Waiting, &s.Shadow}
}

// rulesOf returns the rules that were asked for and that the caller may see.
func rulesOf(from []reportedRule, q *LiveQuery, view *View) []admin.RuleRates {
	all := []admin.RuleRates{}
	for j := range from {
		if of := &from[j]; of.sum() > 0 && includes(q.RuleSet, q.Rule, of.RuleSet, of.Rule) && view.rule(of.RuleSet) && len(all) < q.Limit {
			all = append(all, of.rates())
		}
	}
	return all
}
