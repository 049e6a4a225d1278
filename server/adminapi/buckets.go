package adminapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerBuckets() {
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/buckets/peek", "peek-buckets", tagDecisions,
		"Say what a caller has left", http.StatusNotFound), a.peek)
	huma.Register(a.huma, a.operation(config.RoleWrite, http.MethodPost, "/v1/rule-sets/{ruleSet}/buckets/reset", "reset-buckets", tagDecisions,
		"Make buckets full: all of the rule set, all of a rule, or one caller's", http.StatusNotFound), a.reset)
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, "/v1/rule-sets/{ruleSet}/counters", "list-counters", tagDecisions,
		"Say how often each rule has decided on this server", http.StatusNotFound), a.counters)
}

type bucketsOut struct {
	Body struct {
		Buckets []admin.Bucket `json:"buckets" nullable:"false" doc:"One for each rule."`
	} `nameHint:"Buckets"`
}

func (a *API) peek(ctx context.Context, in *struct {
	RuleSetPath
	Body struct {
		Request admin.Request `json:"request" doc:"A request of the caller."`
		Rules   []string      `json:"rules,omitempty" maxItems:"64" nullable:"false" doc:"The rules, whether they match the request or not. Left out, all that apply to it."`
	} `nameHint:"Peek"`
}) (*bucketsOut, error) {
	req, err := requestOf(&in.Body.Request, in.RuleSet)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	changingOf(ctx).bucket = true
	found, err := a.config.Operator.Buckets(ctx, req, in.Body.Rules...)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := new(bucketsOut)
	out.Body.Buckets = append([]admin.Bucket{}, found...)
	return out, nil
}

func (a *API) reset(ctx context.Context, in *struct {
	RuleSetPath
	Body admin.Reset
}) (*struct{}, error) {
	changingOf(ctx).bucket = true
	record := changingOf(ctx).record
	record.Rule = in.Body.Rule
	err := error(nil)
	if in.Body.RuleSet != "" && in.Body.RuleSet != in.RuleSet {
		err = wrongRequest("ruleSet: must be that of the path, or be left out")
	}
	in.Body.RuleSet = in.RuleSet
	if err == nil {
		record.Key, err = a.config.Operator.ResetKey(ctx, in.Body)
	}
	if err != nil {
		err = a.failed(ctx, err)
		changingOf(ctx).problem = err.Error()
		return nil, err
	}
	record.Outcome = audit.Changed // though there is no revision of it
	return nil, nil
}

type countersOut struct{ Body admin.Counters }

func (a *API) counters(ctx context.Context, in *RuleSetPath) (*countersOut, error) {
	heads, err := a.config.Operator.Revisions(ctx, []string{in.RuleSet})
	if _, known := heads[in.RuleSet]; err == nil && !known {
		err = fmt.Errorf("rule set %q: %w", in.RuleSet, rules.ErrNotFound)
	}
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := &countersOut{admin.Counters{RuleSet: in.RuleSet, Since: a.since, Rules: []admin.Counter{}}}
	if a.config.Counters != nil {
		out.Body.Rules = append(out.Body.Rules, a.config.Counters(in.RuleSet)...)
	}
	return out, nil
}
