package adminapi

import (
	"context"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

const whoami = "whoami"

func (a *API) registerAbout() {
	answer(a, a.get("/v1/audit", "list-audit", tagAbout, "List changes and rejected requests on this server, newest first"), a.listAudit)
	answer(a, a.get("/v1/whoami", whoami, tagAbout, "Show the identity of the caller"), a.whoami)
}

// Audit is a page of the audit.
type Audit struct {
	Records []audit.Record `json:"records" nullable:"false" doc:"Records, newest first."`
	Next    uint64         `json:"next,omitempty" doc:"The value of before for the next page; absent on the last."`
}

func (a *API) listAudit(ctx context.Context, in *struct {
	Page
	Before uint64 `query:"before" doc:"The number of the last record of the previous page."`
}) (*Audit, error) {
	who := callerOf(ctx).who
	page := &Audit{Records: a.config.Audit.Recent(in.Before, in.Limit, func(r *audit.Record) bool {
		if r.RuleSet == "" {
			return who.MayAll(config.RoleRead)
		}
		return who.May(config.RoleRead, r.RuleSet)
	})}
	if n := len(page.Records); n == in.Limit {
		page.Next = page.Records[n-1].Seq
	}
	return page, nil
}

func (a *API) whoami(ctx context.Context, _ *struct{}) (*admin.Who, error) {
	who := callerOf(ctx).who
	here, err := a.config.Operator.Whoami(ctx)
	if err != nil {
		return nil, err
	}
	here.Name, here.Roles, here.RuleSets = who.Name, []string{}, who.RuleSets()
	for _, role := range config.Roles {
		if who.MayAny(role) {
			here.Roles = append(here.Roles, string(role))
		}
	}
	return here, nil
}
