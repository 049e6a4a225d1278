package adminapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerExplain() {
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/effective", "effective-rules", tagDecisions,
		"Say which rules apply to a request, which do not, and why", http.StatusNotFound), a.effective)
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodPost, "/v1/rule-sets/{ruleSet}/explain", "explain-decision", tagDecisions,
		"Say what would be decided about a request, and why; nothing is taken", http.StatusNotFound), a.explain)
}

// question is a request to be explained.
type question struct {
	RuleSetPath
	Applying bool `query:"applying" doc:"Leave out rules that do not apply."`
	Body     admin.Request
}

// request is what the question asks about.
func (q *question) request() (*fluxgate.Request, error) { return requestOf(&q.Body, q.RuleSet) }

func requestOf(sent *admin.Request, ruleSet string) (*fluxgate.Request, error) {
	var req fluxgate.Request
	if sent.RuleSet != "" && sent.RuleSet != ruleSet {
		return nil, wrongRequest("ruleSet: must be that of the path, or be left out")
	}
	if err := sent.To(&req); err != nil {
		return nil, wrongRequest(err.Error())
	}
	req.RuleSet = ruleSet
	return &req, nil
}

func wrongRequest(what string) *admin.Problem {
	p := admin.NewProblem(http.StatusUnprocessableEntity, admin.KindValidation, "The request cannot be explained.")
	p.Errors = []admin.ProblemDetail{{Location: "body", Message: what}}
	return p
}

type explanationOut struct{ Body *admin.Explanation }

func (a *API) effective(ctx context.Context, in *question) (*explanationOut, error) {
	return a.answer(ctx, in, a.config.Operator.Effective)
}

func (a *API) explain(ctx context.Context, in *question) (*explanationOut, error) {
	return a.answer(ctx, in, a.config.Operator.Explain)
}

func (a *API) answer(ctx context.Context, in *question, ask func(context.Context, *fluxgate.Request) (*admin.Explanation, error)) (*explanationOut, error) {
	req, err := in.request()
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	found, err := ask(ctx, req)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	if in.Applying {
		found.Rules = slices.DeleteFunc(found.Rules, func(v admin.Verdict) bool { return !v.Applies })
	}
	return &explanationOut{found}, nil
}
