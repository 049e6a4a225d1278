package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/console"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/adminapi"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/insight"
)

// admin returns the handler of the admin listener.
func (a *App) admin() (http.Handler, error) {
	c := &a.config.Server
	api, err := a.adminAPI()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	a.observe(mux, func(next http.Handler) http.Handler { return next }) // protected as a whole below
	for _, pattern := range api.Patterns() {
		a.watch.route(mux, pattern, api)
	}
	web, err := console.New()
	if err != nil {
		return nil, err
	}
	// The assets hold no data: they need no role. The API that they call does.
	a.watch.route(mux, "GET "+console.Path, web)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusFound))
	// Web pages that an operator has open can neither rebind their host name to
	// this server nor send requests in the operator's name.
	return access.Host("server.admin-hosts", c.AdminHosts, api.Rejected, access.SameOrigin(api.Rejected, withNotFound(mux))), nil
}

func (a *App) adminAPI() (*adminapi.API, error) {
	c := a.config
	editor, err := a.feed.editor()
	if err != nil {
		return nil, err
	}
	if a.audit, err = audit.New(c.Server.Audit.File, a.log); err != nil {
		return nil, err
	}
	a.watch.metrics.WatchAudit(a.audit.Broken)
	clients, err := clientip.New(clientip.Config{TrustedProxies: c.Server.AdminTrustedProxies})
	if err != nil {
		return nil, err
	}
	operator := admin.NewDirect(editor, a.plane.Engine, c.RateLimit.DefaultRuleSetID)
	operator.OverrideEditor = a.feed.overrideEditor()
	operator.Fleet, operator.Recent = a.fleet, a.plane.RecentWarnings
	return adminapi.New(adminapi.Config{
		Operator: operator,
		Guard:    a.edge.guard,
		Audit:    a.audit,
		Clients:  clients,
		InEffect: a.feed.rules,
		Insight:  a.watch.insight,
		Changed:  a.reloadRules,
		Rate:     c.Server.AdminRate,
		Version:  a.version,
		Logger:   a.log,
	})
}

// reloadRules puts a change into effect on this server before it is answered.
func (a *App) reloadRules(r *http.Request, ruleSet string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	began := time.Now()
	err := a.feed.rules.Reload(ctx) // also about other rule sets
	for _, s := range a.feed.rules.Status() {
		if s.RuleSet == ruleSet && s.CheckedAt.Before(began) {
			a.log.Warn("rule set changed, but this server cannot load it yet: its former revision stays in effect",
				"ruleSet", ruleSet, "revision", rules.ShownRevision(s.Revision), "error", cmp.Or(s.Err, err))
		}
	}
}

// fleet returns the servers that report what they understand.
func (a *App) fleet(ctx context.Context) []admin.Server {
	if a.watch.insight == nil {
		return nil
	}
	return a.watch.insight.Fleet(ctx, insight.Everything()).Servers
}
