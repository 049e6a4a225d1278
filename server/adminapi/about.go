package adminapi

import (
	"context"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
)

const whoami = "whoami"

func (a *API) registerAbout() {
	answer(a, orSupport(a.get("/v1/whoami", whoami, tagAbout, "Show the identity of the caller")), a.whoami)
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
