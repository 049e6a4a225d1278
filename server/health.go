package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/xdsrules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/backend"
	"github.com/fluxgate/fluxgate/server/config"
)

// Health is the state of a server.
type Health struct {
	// Status is up, degraded or down. A degraded server decides without the
	// current rules of the source or without the shared buckets.
	Status   string      `json:"status"`
	Version  string      `json:"version,omitempty"`
	Draining bool        `json:"draining,omitempty"`
	Store    StoreHealth `json:"store"`
	Rules    RulesHealth `json:"rules"`
	TLS      *TLSHealth  `json:"tls,omitempty"`
	// AuditError is why the admin API rejects changes.
	AuditError string `json:"auditError,omitempty"`
	// Warnings are settings that a start would refuse now, since their files have changed or
	// cannot be read, settlements that wait, and problems of overrides and of the delivery of warnings. The last
	// content of credentials, tokens and certificates stays in use.
	Warnings []string `json:"warnings,omitempty"`
}

// The statuses.
const (
	statusUp       = "up"
	statusDegraded = "degraded"
	statusDown     = "down"
)

// StoreHealth is the state of the store.
type StoreHealth struct {
	Kind     string       `json:"kind"` // redis or memory
	Status   string       `json:"status"`
	Mode     string       `json:"mode,omitempty"`
	Nodes    []NodeHealth `json:"nodes,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	Error    string       `json:"error,omitempty"`
	// Since is when the server started. It is empty once connected.
	Since time.Time `json:"since,omitzero"`
}

// NodeHealth is the state of one Redis server.
type NodeHealth struct {
	Addr      string  `json:"addr"`
	Version   string  `json:"version,omitempty"`
	Role      string  `json:"role,omitempty"`
	LatencyMs float64 `json:"latencyMs,omitempty"`
	Error     string  `json:"error,omitempty"`
	// Since is when decisions began to fail. BreakerOpen says that the server is
	// only probed.
	Since       time.Time `json:"since,omitzero"`
	BreakerOpen bool      `json:"breakerOpen,omitempty"`
}

// RulesHealth is the state of the rules.
type RulesHealth struct {
	Kind   string `json:"kind"` // file, envoy-files, xds, mongo or redis
	Status string `json:"status"`
	// Count is the number of rule sets in use, Failing the number of those with an error.
	// Sets are the first maxSets, the default and those with an error before others.
	Count   int             `json:"count"`
	Failing int             `json:"failing,omitempty"`
	Sets    []RuleSetHealth `json:"sets"`
	// Error is why the default rule set is missing, or why the rules of an xDS server may
	// not be current.
	Error string `json:"error,omitempty"`
}

// RuleSetHealth is the state of one rule set.
type RuleSetHealth struct {
	ID         string        `json:"id"`
	Revision   int64         `json:"revision"`
	Rules      int           `json:"rules"`
	Source     reload.Origin `json:"source"`
	LoadedAt   time.Time     `json:"loadedAt,omitzero"`
	CheckedAt  time.Time     `json:"checkedAt,omitzero"`
	AgeSeconds float64       `json:"ageSeconds,omitempty"` // since the source confirmed it
	Error      string        `json:"error,omitempty"`
}

// TLSHealth is the state of the certificate.
type TLSHealth struct {
	ExpiresAt time.Time `json:"expiresAt"`
}

// live answers liveness probes.
func live(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "alive\n") }

// healthcheckPath is where envoyproxy/ratelimit answers readiness probes.
const healthcheckPath = "/healthcheck"

// ready returns the answer to readiness probes: rules are loaded and the server does not
// drain. A server without its Redis is ready, since onFailure of the rules decides.
func (a *App) ready(answer string, failure int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := a.notReady(); reason != "" {
			plain(w, failure, "not ready: "+reason+"\n")
			return
		}
		plain(w, http.StatusOK, answer)
	}
}

// notReady returns why the server is not ready, empty if it is.
func (a *App) notReady() string {
	switch {
	case a.edge.draining.Load():
		return "draining"
	case a.feed.health().Status != statusDown:
		return ""
	case a.config.NeedsDefaultRuleSet():
		return "no rules are loaded for ratelimit.default-rule-set-id"
	}
	return "no rules are loaded"
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func (a *App) health(w http.ResponseWriter, r *http.Request) {
	h := a.Health(r.Context())
	body, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		access.Refuse(w, r, http.StatusInternalServerError, "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if h.Status == statusDown {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n'))
}

// Health checks all parts of the server. It takes two seconds at most. Redis is queried
// at most once a second.
func (a *App) Health(ctx context.Context) Health {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h := Health{Version: a.version, Draining: a.edge.draining.Load(), Store: a.storeHealth(ctx), Rules: a.feed.health()}
	if a.edge.certs != nil {
		h.TLS = &TLSHealth{ExpiresAt: a.edge.certs.expires()}
	}
	if a.audit != nil {
		if err := a.audit.Broken(); err != nil {
			h.AuditError = err.Error()
		}
	}
	if warnings := a.warnings.Load(); warnings != nil {
		h.Warnings = *warnings
	}
	switch {
	case h.Rules.Status == statusDown:
		h.Status = statusDown
	case h.Store.Status != statusUp || h.Rules.Status != statusUp:
		h.Status = statusDegraded
	default:
		h.Status = statusUp
	}
	a.logHealth(&h)
	return h
}

// healthInterval is how often health is looked at also without a request for it. After the
// start this is the first time: rules or Redis may be missing only because of the start.
const healthInterval = 2 * time.Second

// reportedHealth is a status, and the reason if it is not up.
type reportedHealth struct{ status, reason string }

// lastHealth returns the status when health was last looked at, empty before.
func (a *App) lastHealth() (status, reason string) {
	if h := a.reported.Load(); h != nil {
		return h.status, h.reason
	}
	return "", ""
}

// watchHealth looks at health so that its changes are logged, and for the reports of this
// server.
func (a *App) watchHealth(ctx context.Context) {
	for background.Sleep(ctx, healthInterval) == nil {
		a.checkConfig(ctx)
		a.Health(ctx)
	}
}

// checkConfig notes the warnings of health.
func (a *App) checkConfig(ctx context.Context) {
	var warnings []string
	var invalid *config.Error
	if errors.As(a.config.Check(), &invalid) {
		for _, p := range invalid.Problems {
			warnings = append(warnings, p.Place+": "+p.Message)
		}
	}
	for _, s := range a.feed.rules.Status() {
		if s.OverridesErr != nil {
			warnings = append(warnings, fmt.Sprintf("rule set %s: %v", s.RuleSet, s.OverridesErr))
		}
	}
	if why := a.feed.rules.Silence(); why != nil {
		warnings = append(warnings, fmt.Sprintf("announcements of rule changes cannot be received on the channel %s (changes are found by "+
			"polling, within %v): %v", a.config.Reload.Channel, a.config.Reload.PollingInterval, why))
	}
	if a.feed.overrides != nil {
		warnings = append(warnings, a.feed.overrides.Problems()...)
	}
	warnings = append(warnings, a.withoutOverrides(ctx)...)
	warnings = append(warnings, a.notForProxies()...)
	if late := a.warns.Problem(); late != "" {
		warnings = append(warnings, late)
	}
	if stats := a.fallbackStats(); stats.PendingSettlements > 0 {
		warnings = append(warnings, fmt.Sprintf("%d settlements wait until Redis answers", stats.PendingSettlements))
	}
	a.warnings.Store(&warnings)
}

// fleetInterval is how often a server that has overrides reads the reports of the others. All of
// them do, and each reads all reports.
const fleetInterval = 5 * time.Minute

// withoutOverrides names the servers that do not apply the overrides there are.
func (a *App) withoutOverrides(ctx context.Context) []string {
	engine := a.plane.Engine()
	if time.Since(a.olderAt) < fleetInterval || engine == nil || engine.Overrides() == nil || engine.Overrides().Len() == 0 {
		return a.older
	}
	a.older, a.olderAt = nil, time.Now()
	needs := []string{rules.FeatureOverrides}
	if a.feed.overrides != nil {
		needs = append(needs, rules.FeatureSharedOverrides)
	}
	for _, s := range a.fleet(ctx) {
		if missing := rules.NotUnderstood(needs, s.Understands); len(missing) > 0 {
			a.older = append(a.older, fmt.Sprintf("server %s (version %s) does not apply overrides: upgrade it", s.Name, s.Version))
		}
	}
	return a.older
}

// logHealth logs a change of the status. Without requests nothing else may log its
// reason.
func (a *App) logHealth(h *Health) {
	now, level := &reportedHealth{status: h.Status}, slog.LevelInfo
	if h.Status != statusUp {
		now.reason, level = h.reason(), slog.LevelWarn
	}
	before := statusUp // at the start
	if last := a.reported.Swap(now); last != nil {
		before = last.status
	}
	attrs := []any{"before", before, "reason", now.reason}
	if h.Status == statusDown {
		level = slog.LevelError
		if a.config.NeedsDefaultRuleSet() {
			attrs = append(attrs, "missingRuleBehavior", string(a.config.RateLimit.MissingRuleBehavior), "remedy", missingRemedy(a.config))
		}
	}
	if before != now.status {
		a.log.Log(context.Background(), level, "health is "+now.status, attrs...)
	}
}

// reason returns the first error.
func (h *Health) reason() string {
	reasons := []string{h.Store.Error, h.Rules.Error}
	for i := range h.Store.Nodes {
		if n := &h.Store.Nodes[i]; n.Error != "" {
			reasons = append(reasons, n.Addr+": "+n.Error)
		}
	}
	for i := range h.Rules.Sets {
		if s := &h.Rules.Sets[i]; s.Error != "" {
			reasons = append(reasons, "rule set "+s.ID+": "+s.Error)
		}
	}
	return cmp.Or(append(reasons, "a shard of Redis has no server")...)
}

func (a *App) storeHealth(ctx context.Context) StoreHealth {
	if !a.config.Redis.Enabled {
		return StoreHealth{Kind: "memory", Status: statusUp}
	}
	h := StoreHealth{Kind: "redis", Status: statusDown}
	if backend.SharesByServers(a.config) && a.plane.Servers() == 0 {
		h.Warnings = append(h.Warnings, backend.ServersUnknown)
	}
	redis := a.plane.Redis()
	if redis == nil {
		h.Error, h.Since = a.plane.Failure().Error(), a.plane.Began()
		return h
	}
	found := redis.Health(ctx)
	h.Mode, h.Warnings = string(found.Mode), append(h.Warnings, found.Warnings...)
	if found.Healthy() {
		h.Status = statusUp
	}
	if found.Err != nil {
		h.Error = found.Err.Error()
	}
	for _, n := range found.Nodes {
		node := NodeHealth{Addr: n.Addr, Version: n.Version, Role: n.Role, LatencyMs: float64(n.Latency.Microseconds()) / 1_000,
			Since: n.Since, BreakerOpen: n.Open}
		if n.Err != nil {
			node.Error = n.Err.Error()
		}
		h.Nodes = append(h.Nodes, node)
	}
	return h
}

func (f *feed) health() RulesHealth {
	h := RulesHealth{Kind: f.source.Kind, Status: statusUp, Sets: []RuleSetHealth{}}
	needsDefault := f.config.NeedsDefaultRuleSet()
	xds, isXDS := f.source.Source.(*xdsrules.Source)
	for _, s := range f.rules.Status() {
		isDefault := s.RuleSet == f.config.RateLimit.DefaultRuleSetID
		// An unknown id in a request. An xDS server that does not answer is reported once.
		if s.Source == reload.FromNowhere && (s.Err == nil || isXDS) && (!isDefault || !needsDefault) {
			continue
		}
		set := RuleSetHealth{
			ID: s.RuleSet, Revision: s.Revision, Rules: s.Rules, Source: s.Source, LoadedAt: s.LoadedAt, CheckedAt: s.CheckedAt,
		}
		if !s.CheckedAt.IsZero() {
			set.AgeSeconds = time.Since(s.CheckedAt).Seconds()
		}
		switch {
		case s.Err != nil:
			set.Error = s.Err.Error()
			h.Status = statusDegraded
		case s.Source == reload.FromCopy:
			set.Error = "the source has not answered since the start; the copy on disk is in effect"
			h.Status = statusDegraded
		}
		h.Sets = append(h.Sets, set)
	}
	serving := slices.ContainsFunc(h.Sets, func(s RuleSetHealth) bool {
		return s.Source != reload.FromNowhere && (s.ID == f.config.RateLimit.DefaultRuleSetID || !needsDefault)
	})
	if len(h.Sets) > 0 && !serving {
		h.Status = statusDown
	}
	f.boundSets(&h)
	if isXDS {
		f.xdsHealth(xds, &h)
	}
	if h.Status == statusDown && h.Error == "" && h.Failing == 0 {
		h.Error = fmt.Sprintf("the source has no rule set %s (ratelimit.default-rule-set-id)", f.config.RateLimit.DefaultRuleSetID)
	}
	return h
}

// maxSets is how many rule sets health lists.
const maxSets = 20

// boundSets counts the rule sets and keeps the first.
func (f *feed) boundSets(h *RulesHealth) {
	rank := func(s *RuleSetHealth) int {
		switch {
		case s.ID == f.config.RateLimit.DefaultRuleSetID:
			return 0
		case s.Error != "":
			return 1
		}
		return 2
	}
	for i := range h.Sets {
		if h.Sets[i].Error != "" {
			h.Failing++
		}
		if h.Sets[i].Source != reload.FromNowhere {
			h.Count++
		}
	}
	slices.SortStableFunc(h.Sets, func(x, y RuleSetHealth) int { return rank(&x) - rank(&y) })
	h.Sets = slices.Clip(h.Sets[:min(maxSets, len(h.Sets))])
}

// xdsHealth adds the state of an xDS server.
func (f *feed) xdsHealth(source *xdsrules.Source, h *RulesHealth) {
	err := source.Err()
	if err == nil {
		return
	}
	h.Error = err.Error()
	switch {
	case !source.Loaded() && !f.config.Rules.XDS.StartWithoutRules:
		h.Status = statusDown
	case h.Status == statusUp:
		h.Status = statusDegraded
	}
}
