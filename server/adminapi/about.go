package adminapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

func (a *API) registerAbout() {
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, "/v1/audit", "list-audit", tagAbout, "List what was changed or refused on this server, newest first"), a.listAudit)
	huma.Register(a.huma, a.operation(config.RoleRead, http.MethodGet, "/v1/whoami", "whoami", tagAbout, "Say who the server takes the caller for"), a.whoami)
}

type auditOut struct {
	Body struct {
		Records []audit.Record `json:"records" nullable:"false" doc:"Records, newest first."`
		Next    uint64         `json:"next,omitempty" doc:"What to give as before for the next page; left out on the last."`
	} `nameHint:"Audit"`
}

func (a *API) listAudit(ctx context.Context, in *struct {
	Page
	Before uint64 `query:"before" doc:"The number of the last record of the page before."`
}) (*auditOut, error) {
	who := callerOf(ctx).who
	found := a.config.Audit.Recent(in.Before, in.Limit, func(r *audit.Record) bool {
		if r.RuleSet == "" {
			return who.MayAll(config.RoleRead)
		}
		return who.May(config.RoleRead, r.RuleSet)
	})
	out := new(auditOut)
	out.Body.Records = append([]audit.Record{}, found...)
	if len(found) == in.Limit {
		out.Body.Next = found[len(found)-1].Seq
	}
	return out, nil
}

type whoOut struct{ Body admin.Who }

func (a *API) whoami(ctx context.Context, _ *struct{}) (*whoOut, error) {
	who := callerOf(ctx).who
	here, err := a.config.Operator.Whoami(ctx)
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	out := &whoOut{*here}
	out.Body.Name, out.Body.Roles, out.Body.RuleSets = who.Name, []string{}, who.RuleSets()
	for _, role := range []config.Role{config.RoleCheck, config.RoleRead, config.RoleWrite} {
		if who.MayAny(role) {
			out.Body.Roles = append(out.Body.Roles, string(role))
		}
	}
	return out, nil
}
