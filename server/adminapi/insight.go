package adminapi

import (
	"context"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
)

func (a *API) registerInsight() {
	answer(a, a.get("/v1/warnings", "warnings", tagInsight,
		"Show the last warnings of limits; the role identities shows of whom, with events.identities"), a.warnings)
	if a.config.Insight == nil {
		return
	}
	answer(a, a.get("/v1/live", "live", tagInsight,
		"Show the current request rates, in total and by rule"), a.live)
	answer(a, a.get("/v1/fleet", "fleet", tagInsight,
		"Show the servers that share Redis"), a.fleet)
	answer(a, orSupport(a.get("/v1/callers", "callers", tagInsight,
		"Show the callers that are limited most, or allowed most; the role identities shows who they are")), a.callers)
}

// viewOf returns what the caller may see.
func viewOf(ctx context.Context) insight.View {
	who := callerOf(ctx).who
	return insight.View{
		All:        who.MayAll(config.RoleRead),
		RuleSet:    func(id string) bool { return who.May(config.RoleRead, id) },
		Identities: func(id string) bool { return who.May(config.RoleIdentities, id) },
	}
}

func (a *API) live(ctx context.Context, in *insight.LiveQuery) (*admin.Live, error) {
	return a.config.Insight.Live(ctx, *in, viewOf(ctx)), nil
}

func (a *API) fleet(ctx context.Context, _ *struct{}) (*admin.Fleet, error) {
	return a.config.Insight.Fleet(ctx, viewOf(ctx)), nil
}

func (a *API) callers(ctx context.Context, in *insight.CallersQuery) (*admin.Callers, error) {
	if in.Rule != "" && in.RuleSet == "" {
		return nil, invalidAt("query.rule", "needs ruleSet")
	}
	view, who := viewOf(ctx), callerOf(ctx).who
	view.All = view.All || who.MayAll(config.RoleSupport)
	read := view.RuleSet
	view.RuleSet = func(id string) bool { return read(id) || who.May(config.RoleSupport, id) }
	return a.config.Insight.Callers(ctx, *in, view), nil
}

func (a *API) warnings(ctx context.Context, in *struct {
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"100" doc:"The most warnings to return."`
}) (*admin.Warnings, error) {
	attemptOf(ctx).bucket = true
	found, err := a.config.Operator.Warnings(ctx, admin.MaxWarnings)
	out, who := &admin.Warnings{Warnings: []admin.Warning{}}, viewOf(ctx)
	for _, w := range found {
		if !who.RuleSet(w.RuleSet) || len(out.Warnings) == in.Limit {
			continue
		}
		if !who.Identities(w.RuleSet) {
			w.Identity = ""
		}
		out.Warnings = append(out.Warnings, w)
	}
	return out, err
}
