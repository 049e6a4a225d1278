package adminapi

import (
	"context"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
)

func (a *API) registerInsight() {
	if a.config.Insight == nil {
		return
	}
	answer(a, a.get("/v1/live", "live", tagInsight,
		"Show the current request rates, in total and by rule"), a.live)
	answer(a, a.get("/v1/fleet", "fleet", tagInsight,
		"Show the servers that share Redis"), a.fleet)
	answer(a, a.get("/v1/callers", "callers", tagInsight,
		"Show the callers that are limited most, or allowed most; the role identities shows who they are"), a.callers)
}

// RuleQuery selects a rule set or a rule.
type RuleQuery struct {
	RuleSet string `query:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Only this rule set."`
	Rule    string `query:"rule" pattern:"^([A-Za-z0-9._-]{1,64}|\\(request\\))$" doc:"Only this rule; needs ruleSet."`
}

// check refuses a rule without a rule set.
func (q *RuleQuery) check() error {
	if q.Rule != "" && q.RuleSet == "" {
		return invalidAt("query.rule", "needs ruleSet")
	}
	return nil
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

func (a *API) live(ctx context.Context, in *struct {
	RuleQuery
	Page
	Scope string `query:"scope" enum:"fleet,server" doc:"All servers (default), or this one, as for rules and hours of rule sets."`
	Range string `query:"range" enum:"2m,1h" default:"2m" doc:"The last two minutes, or the last hour of the servers that run now."`
}) (*admin.Live, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Scope == admin.ScopeFleet && (in.Rule != "" || in.RuleSet != "" && in.Range == admin.RangeHour) {
		return nil, invalidAt("query.scope", "must be server for a rule, and for the last hour of a rule set")
	}
	q := admin.LiveQuery{Scope: in.Scope, Range: in.Range, RuleSet: in.RuleSet, Rule: in.Rule, Limit: in.Limit}
	return a.config.Insight.Live(ctx, q, viewOf(ctx)), nil
}

func (a *API) fleet(ctx context.Context, _ *struct{}) (*admin.Fleet, error) {
	return a.config.Insight.Fleet(ctx, viewOf(ctx)), nil
}

func (a *API) callers(ctx context.Context, in *struct {
	RuleQuery
	Outcome string `query:"outcome" enum:"limited,allowed" default:"limited" doc:"Which requests to count. limited includes shadow rules."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"The most callers to return."`
}) (*admin.Callers, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	q := admin.CallersQuery{RuleSet: in.RuleSet, Rule: in.Rule, Outcome: in.Outcome, Limit: in.Limit}
	return a.config.Insight.Callers(ctx, q, viewOf(ctx)), nil
}
