package insight

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// reportEvery is how often a server writes its report, and reportLasts how long others
	// see it.
	reportEvery = 2 * time.Second
	reportLasts = 6 * time.Second
	// writeTimeout and readTimeout bound the calls to Redis, and cacheFor is how long the
	// reports that were read are used.
	writeTimeout = time.Second
	readTimeout  = time.Second
	cacheFor     = time.Second
)

// reportUntil writes reports until ctx ends.
func (i *Insight) reportUntil(ctx context.Context) {
	if i.config.Fleet == nil {
		return
	}
	every := time.NewTicker(reportEvery)
	defer every.Stop()
	for {
		i.write(ctx)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func (i *Insight) write(ctx context.Context) {
	fleet, err := i.config.Fleet()
	if err != nil {
		return // the server logs it
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	text := i.own(time.Now(), reportedRules, reportedCallers).encode()
	if err := fleet.WriteReport(ctx, text, reportLasts); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotSent) {
		i.warn("cannot write the report of this server: live numbers of other servers do not include it", "error", err)
	}
}

func (i *Insight) warn(message string, args ...any) {
	i.failed.Log(context.Background(), i.config.Logger, slog.LevelWarn, message, args...)
}

// fleetCache is the reports that were read last.
type fleetCache struct {
	mu      sync.Mutex
	at      time.Time
	others  map[string]*report
	problem string
}

// others returns the reports of the other servers, or why there are none, in words.
func (i *Insight) others(ctx context.Context) (map[string]*report, string) {
	if i.config.Fleet == nil {
		return nil, ""
	}
	c := &i.fleet
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= cacheFor {
		c.others, c.problem = i.read(ctx)
		c.at = time.Now()
	}
	return c.others, c.problem
}

func (i *Insight) read(ctx context.Context) (map[string]*report, string) {
	fleet, err := i.config.Fleet()
	var texts map[string][]byte
	if err == nil {
		// The answer is for other callers too: it does not end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		texts, err = fleet.Reports(ctx, MaxReport)
	}
	if err != nil {
		return nil, i.problem(err)
	}
	others := map[string]*report{}
	for id, text := range texts {
		if id == fleet.ID() {
			continue
		}
		r, err := parseReport(text)
		if err != nil {
			i.warn("report of a server is invalid: live numbers do not include that server", "server", id, "error", err)
			continue
		}
		others[id] = r
	}
	return others, ""
}

// problem says in words why there are no reports. A refusal of Redis is logged: nothing
// else may show it.
func (i *Insight) problem(err error) string {
	var reply interface {
		error
		RedisError()
	}
	if !errors.As(err, &reply) {
		return "Redis does not answer: these are the numbers of this server only."
	}
	i.warn("cannot read the reports of the other servers: live numbers are of this server only", "error", err)
	return "Redis does not return the reports of the other servers: these are the numbers of this server only. " +
		"The log of this server has the error."
}

// selfID returns the id of this server in the fleet.
func (i *Insight) selfID() string {
	if i.config.Fleet != nil {
		if fleet, err := i.config.Fleet(); err == nil {
			return fleet.ID()
		}
	}
	return "self"
}

// Servers returns the servers of the reports. Those that cannot be read are left out.
func Servers(ctx context.Context, fleet Fleet) ([]admin.Server, error) {
	texts, err := fleet.Reports(ctx, MaxReport)
	view := Everything()
	var servers []admin.Server
	for id, text := range texts {
		if r, err := parseReport(text); err == nil {
			servers = append(servers, r.server(id, &view, time.Now()))
		}
	}
	sortServers(servers)
	return servers, err
}

func sortServers(servers []admin.Server) {
	slices.SortFunc(servers, func(a, b admin.Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
}

// Fleet returns the servers that share Redis.
func (i *Insight) Fleet(ctx context.Context, view View) *admin.Fleet {
	now := time.Now()
	others, problem := i.others(ctx)
	self := i.own(now, 0, 0).server(i.selfID(), &view, now)
	self.Self = true
	fleet := &admin.Fleet{Servers: []admin.Server{self}, Differing: []admin.DifferingRevisions{}, Problem: problem}
	for id, r := range others {
		fleet.Servers = append(fleet.Servers, r.server(id, &view, now))
	}
	sortServers(fleet.Servers)
	for j := range fleet.Servers {
		addRates(&fleet.Total, &fleet.Servers[j].Rates)
	}
	fleet.Differing = append(fleet.Differing, differing(fleet.Servers)...)
	return fleet
}

func addRates(to, more *admin.Rates) {
	added := classesOf(more)
	for o, sum := range classesOf(to) {
		*sum = math.Round(10*(*sum+*added[o])) / 10
	}
}

// differing returns the rule sets that servers have at different revisions.
func differing(servers []admin.Server) (all []admin.DifferingRevisions) {
	revisions := map[string][]int64{}
	for i := range servers {
		for id, revision := range servers[i].Revisions {
			if !slices.Contains(revisions[id], revision) {
				revisions[id] = append(revisions[id], revision)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(revisions)) {
		if r := revisions[id]; len(r) > 1 {
			slices.Sort(r)
			all = append(all, admin.DifferingRevisions{RuleSet: id, Revisions: r})
		}
	}
	return all
}

// fleetLive answers for all servers. The last step of each report is now: clocks differ.
func (i *Insight) fleetLive(ctx context.Context, q *LiveQuery, view *View) *admin.Live {
	now := time.Now()
	others, problem := i.others(ctx)
	all := []*report{i.own(now, maxRules+1, 0)}
	for _, r := range others {
		all = append(all, r)
	}
	live := &admin.Live{Scope: admin.ScopeFleet, StepSeconds: step, End: now.Truncate(time.Second).UTC(), Problem: problem}
	length := steps
	if q.Range == admin.RangeHour {
		live.StepSeconds, live.End, length = hourStep, now.Truncate(10*time.Second).UTC(), hourSteps
	}
	var shown []serverSeries
	for _, r := range all {
		if q.Range != admin.RangeHour {
			shown = append(shown, serverSeries{&r.reportedSteps, r.visible(view, q.RuleSet)})
		} else if r.Hour != nil {
			shown = append(shown, serverSeries{&r.Hour.reportedSteps, []*reportedSeries{&r.Hour.reportedSeries}})
		}
	}
	fill(live, shown, length)
	live.Rules = rulesOf(rulesOfAll(all), q, view)
	return live
}

// rulesOfAll adds up the rules of all servers, the busiest first.
func rulesOfAll(all []*report) []reportedRule {
	rules := map[ruleKey]reportedRule{}
	for _, r := range all {
		for _, of := range r.Rules {
			for o, n := range rules[ruleKey{of.RuleSet, of.Rule}].Counts {
				of.Counts[o] += n
			}
			rules[ruleKey{of.RuleSet, of.Rule}] = of
		}
	}
	sorted := slices.Collect(maps.Values(rules))
	slices.SortFunc(sorted, busiest)
	return sorted
}

// serverSeries is the series of one server that are shown.
type serverSeries struct {
	*reportedSteps
	visible []*reportedSeries
}

// fill adds up the steps of all servers.
func fill(live *admin.Live, shown []serverSeries, length int) {
	live.Servers = len(shown)
	for ago := length - 1; ago >= 0; ago-- {
		appendFleetStep(&live.Series, shown, float64(live.StepSeconds), ago)
	}
}

// appendFleetStep adds up one step of all servers that know it.
func appendFleetStep(s *admin.Series, all []serverSeries, seconds float64, ago int) {
	var sum counts
	var p50, p99 float64
	known := false
	for _, r := range all {
		if ago >= r.Steps {
			continue
		}
		known = true
		for _, series := range r.visible {
			for o := range sum {
				sum[o] += min(series.at(class(o), ago), math.MaxUint32-sum[o])
			}
		}
		if n := len(r.P50); n > ago {
			p50 = max(p50, r.P50[n-1-ago])
		}
		if n := len(r.P99); n > ago {
			p99 = max(p99, r.P99[n-1-ago])
		}
	}
	if !known {
		appendUnknown(s)
		return
	}
	appendStep(s, &sum, seconds, p50, p99)
}

// includes reports whether a filter that names a rule set and a rule, or neither, includes
// a rule.
func includes(wantSet, wantRule, ruleSet, rule string) bool {
	return (wantSet == "" || wantSet == ruleSet) && (wantRule == "" || wantRule == rule)
}
