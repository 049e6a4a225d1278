package adminapi

import (
	"context"
	"net/http"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerBuckets() {
	answer(a, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/buckets/peek", "peek-buckets", tagDecisions,
		"Show the remaining tokens of a caller", http.StatusNotFound), a.peek)
	register(a, a.operation(config.RoleWrite, http.MethodPost, "/v1/rule-sets/{ruleSet}/buckets/reset", "reset-buckets", tagDecisions,
		"Reset buckets to full: all of the rule set, all of a rule, or that of one caller", http.StatusNotFound), a.reset)
}

type buckets struct {
	Buckets []admin.Bucket `json:"buckets" nullable:"false" doc:"One for each rule."`
}

func (a *API) peek(ctx context.Context, in *struct {
	RuleSetPath
	Body struct {
		Request admin.Request `json:"request" doc:"A request of the caller."`
		Rules   []string      `json:"rules,omitempty" maxItems:"64" nullable:"false" doc:"The rules. The default is all that apply."`
	} `nameHint:"Peek"`
}) (*buckets, error) {
	req, err := requestOf(&in.Body.Request, in.RuleSet)
	if err != nil {
		return nil, err
	}
	attemptOf(ctx).bucket = true
	found, err := a.config.Operator.Buckets(ctx, req, in.Body.Rules...)
	return &buckets{append([]admin.Bucket{}, found...)}, err
}

func (a *API) reset(ctx context.Context, in *struct {
	RuleSetPath
	Body admin.Reset
}) (*struct{}, error) {
	attempt := attemptOf(ctx)
	attempt.bucket, attempt.record.Rule = true, in.Body.Rule
	if in.Body.RuleSet != "" && in.Body.RuleSet != in.RuleSet {
		return nil, invalidAt("body", "ruleSet: must be that of the path, or be left out")
	}
	in.Body.RuleSet = in.RuleSet
	key, err := a.config.Operator.ResetKey(ctx, in.Body)
	attempt.record.Key = key
	if err == nil {
		attempt.record.Outcome = audit.Changed // without a new revision
	}
	return nil, err
}
