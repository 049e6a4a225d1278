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
	"github.com/fluxgate/fluxgate/store/redisstore"
)

const (
	// reportEvery is how often a server writes its report. It is kept for reportLasts: as long as
	// others show the server as lost, and while its heartbeat lasts.
	reportEvery = 2 * time.Second
	reportLasts = redisstore.LostShown + 2*time.Minute
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
			i.leave()
			return
		}
	}
}

// leave removes this server from the fleet. Without Redis the others see it as lost.
func (i *Insight) leave() {
	if fleet, err := i.config.Fleet(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		_ = fleet.Leave(ctx)
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
	lost    []admin.LostServer
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
		c.others, c.lost, c.problem = i.read(ctx)
		c.at = time.Now()
	}
	return c.others, c.problem
}

func (i *Insight) read(ctx context.Context) (map[string]*report, []admin.LostServer, string) {
	fleet, err := i.config.Fleet()
	var texts map[string][]byte
	var lost []admin.LostServer
	if err == nil {
		// The answer is for other callers too: it does not end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		if texts, err = fleet.Reports(ctx, MaxReport); err == nil {
			lost, err = Lost(ctx, fleet)
		}
	}
	if err != nil {
		return nil, nil, i.problem(err)
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
	return others, lost, ""
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

// Lost returns the servers that were lost, the last one first. Those whose reports cannot be read
// are left out.
func Lost(ctx context.Context, fleet Fleet) ([]admin.LostServer, error) {
	texts, err := fleet.LostReports(ctx, MaxReport)
	lost, now := []admin.LostServer{}, time.Now()
	for id, last := range texts {
		if r, err := parseReport(last.Content); err == nil {
			at := now.Add(-last.Since).UTC().Truncate(time.Second)
			lost = append(lost, admin.LostServer{
				ID: id, Name: r.Name, Version: r.Build, LostAt: at, ShownUntil: at.Add(redisstore.LostShown),
			})
		}
	}
	slices.SortFunc(lost, func(a, b admin.LostServer) int { return cmp.Or(b.LostAt.Compare(a.LostAt), cmp.Compare(a.ID, b.ID)) })
	return lost, err
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
	fleet := &admin.Fleet{Servers: []admin.Server{self}, Differing: []admin.DifferingRevisions{}, Lost: i.lost(), Problem: problem}
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

// lost returns the servers that were lost, of the reports that were read last.
func (i *Insight) lost() []admin.LostServer {
	i.fleet.mu.Lock()
	defer i.fleet.mu.Unlock()
	return append([]admin.LostServer{}, i.fleet.lost...)
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

// Live returns the current rates. The last step of each report is now: clocks differ.
func (i *Insight) Live(ctx context.Context, q LiveQuery, view View) *admin.Live {
	now := time.Now()
	others, problem := i.others(ctx)
	all := append(slices.Collect(maps.Values(others)), i.own(now, maxRules+1, 0))
	live := &admin.Live{
		Servers: len(all), StepSeconds: step, End: now.Truncate(time.Second).UTC(), Problem: problem,
		Rules: []admin.RuleRates{},
	}
	var shown []serverSeries
	for _, r := range all {
		shown = append(shown, serverSeries{r, r.visible(&view, q.RuleSet)})
	}
	for ago := steps - 1; ago >= 0; ago-- {
		appendStep(&live.Series, shown, ago)
	}
	for _, of := range rulesOfAll(all) {
		wanted := (q.RuleSet == "" || q.RuleSet == of.RuleSet) && view.rule(of.RuleSet)
		if wanted && of.sum() > 0 && len(live.Rules) < cmp.Or(q.Limit, 100) {
			live.Rules = append(live.Rules, of.rates())
		}
	}
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
	*report
	visible []*reportedSeries
}

// appendStep adds up one step of all servers that know it.
func appendStep(to *admin.Series, all []serverSeries, ago int) {
	var sum [classes]uint64
	var p50, p99 float64
	known := false
	for _, r := range all {
		if ago >= r.Steps {
			continue
		}
		known = true
		for _, series := range r.visible {
			for o := range sum {
				sum[o] += uint64(series.at(class(o), ago))
			}
		}
		if n := min(len(r.P50), len(r.P99)); ago < n {
			p50, p99 = max(p50, r.P50[len(r.P50)-1-ago]), max(p99, r.P99[len(r.P99)-1-ago])
		}
	}
	for o, series := range [classes]*[]*float64{
		&to.Allowed, &to.Limited, &to.Denied, &to.Degraded, &to.Waiting, &to.Shadow,
	} {
		var rate *float64
		if known {
			rate = new(math.Round(1e4*float64(sum[o])/step) / 1e4) // a step can be counted again
		}
		*series = append(*series, rate)
	}
	to.P50Ms, to.P99Ms = append(to.P50Ms, knownMs(p50)), append(to.P99Ms, knownMs(p99))
}
