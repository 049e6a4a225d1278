package adminapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerExplain() {
	answer(a, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/effective", "effective-rules", tagDecisions,
		"Show which rules apply to a request, which do not, and why", http.StatusNotFound), a.effective)
	answer(a, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/explain", "explain-decision", tagDecisions,
		"Show the decision about a request, and why; takes no tokens", http.StatusNotFound), a.explain)
}

// explainInput is a request to be explained.
type explainInput struct {
	RuleSetPath
	Applying bool `query:"applying" doc:"Leave out rules that do not apply."`
	Body     admin.Request
}

func requestOf(sent *admin.Request, ruleSet string) (*fluxgate.Request, error) {
	var req fluxgate.Request
	if sent.RuleSet != "" && sent.RuleSet != ruleSet {
		return nil, invalidAt("body", "ruleSet: must be that of the path, or be left out")
	}
	if err := sent.To(&req); err != nil {
		return nil, invalidAt("body", err.Error())
	}
	req.RuleSet = ruleSet
	return &req, nil
}

// invalidAt is the problem of a part of a request.
func invalidAt(location, message string) *admin.Problem {
	p := admin.NewProblem(http.StatusUnprocessableEntity, admin.KindValidation, "The request is not valid.")
	p.Errors = []admin.ProblemDetail{{Location: location, Message: message}}
	return p
}

func (a *API) explain(ctx context.Context, in *explainInput) (*admin.Explanation, error) {
	req, err := requestOf(&in.Body, in.RuleSet)
	if err != nil {
		return nil, err
	}
	found, err := a.config.Operator.Explain(ctx, req)
	if err == nil && in.Applying {
		found.Rules = slices.DeleteFunc(found.Rules, func(v admin.Verdict) bool { return !v.Applies })
	}
	return found, err
}

func (a *API) effective(ctx context.Context, in *explainInput) (*admin.Explanation, error) {
	found, err := a.explain(ctx, in)
	if err == nil {
		found.Decision, found.Readings = nil, nil
	}
	return found, err
}
