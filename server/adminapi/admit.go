package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

// write writes a problem.
func write(header http.Header, status func(int), body io.Writer, p *admin.Problem) {
	header.Set("Content-Type", p.ContentType(""))
	header.Set("Cache-Control", "no-store")
	status(p.Status)
	_ = json.NewEncoder(body).Encode(p) // the caller may have disconnected
}

// admit permits callers that have the role of an operation, and writes every change and
// every refused attempt to the audit.
func (a *API) admit(ctx huma.Context, next func(huma.Context)) {
	request, _ := humago.Unwrap(ctx)
	op, caller := ctx.Operation(), callerOf(ctx.Context())
	roles := rolesOf(op)
	changes := slices.Contains(roles, config.RoleWrite) || len(roles) == 1 && roles[0] == config.RoleSupport
	attempt := &attempt{request: request, record: &audit.Record{
		Who:       audit.Unauthenticated,
		From:      a.config.Clients.Addr(request).String(),
		Operation: op.OperationID,
		RuleSet:   named(ctx, "ruleSet"),
		Rule:      named(ctx, "rule"),
	}}
	if caller.who != nil {
		attempt.record.Who = caller.who.Name
	}
	problem := a.refusal(ctx, request, caller, roles, changes, attempt.record.RuleSet)
	if problem != nil {
		if op.OperationID == whoami && request.Header.Get("Authorization") == "" {
			writeProblem(ctx, problem) // the console finds out so whether it needs a token
		} else {
			a.refuse(ctx, attempt, problem)
		}
		return
	}
	// The body has not been read yet.
	release, err := a.slots.Take(ctx.Context(), a.callerName(request))
	if err != nil {
		ctx.SetHeader("Retry-After", "1")
		problem = admin.NewProblem(http.StatusServiceUnavailable, admin.KindLimited,
			"The server is busy with other requests, perhaps of the same caller. Nothing was done: try again.")
		if changes {
			a.refuse(ctx, attempt, problem)
		} else {
			writeProblem(ctx, problem)
		}
		return
	}
	defer release()
	within, cancel := context.WithTimeout(ctx.Context(), timeout)
	defer cancel()
	if changes {
		defer func() {
			failure := recover()
			if failure != nil {
				a.audit(ctx.Context(), attempt.record, http.StatusInternalServerError, "the server failed: the change may have been made")
				panic(failure)
			}
			a.audit(ctx.Context(), attempt.record, ctx.Status(), attempt.problem)
		}()
	}
	next(huma.WithContext(ctx, context.WithValue(within, attemptKey{}, attempt)))
}

// named returns the id in a path or a query. The audit has no invalid ids.
func named(ctx huma.Context, parameter string) string {
	if id := cmp.Or(ctx.Param(parameter), ctx.Query(parameter)); id == "" || rules.ValidID(id) {
		return id
	}
	return "(not an id)"
}

// refusal returns why an operation is refused, or nil.
func (a *API) refusal(ctx huma.Context, r *http.Request, caller caller, roles []config.Role, changes bool, ruleSet string) *admin.Problem {
	forbidden := func(detail string) *admin.Problem {
		return admin.NewProblem(http.StatusForbidden, admin.KindAccess, detail)
	}
	has := func(role config.Role) bool { return caller.who.MayAny(role) }
	if ruleSet != "" {
		has = func(role config.Role) bool { return caller.who.May(role, ruleSet) }
	}
	switch {
	case caller.err != nil:
		return a.unauthenticated(ctx, r, caller.err)
	case len(roles) == 0:
		return forbidden("The operation is not available to any role.")
	case ruleSet == "" && !slices.ContainsFunc(roles, has):
		return forbidden(caller.who.Name + " does not have the role " + string(roles[0]) + ".")
	case ruleSet != "" && !slices.ContainsFunc(roles, has):
		return forbidden(caller.who.Name + " does not have the role " + string(roles[0]) + " on rule set " + ruleSet + ".")
	case changes && a.config.Audit.Broken() != nil:
		// The record of this attempt tries to write the audit again.
		return admin.NewProblem(http.StatusServiceUnavailable, admin.KindUnavailable,
			"Changes are rejected while the audit file cannot be written: see the server's log. Try again later.")
	}
	return nil
}

// unauthenticated returns the answer to a caller without a valid identity.
func (a *API) unauthenticated(ctx huma.Context, r *http.Request, err error) *admin.Problem {
	header := http.Header{}
	status, detail := a.config.Guard.Challenge(header, r, err)
	for name, values := range header {
		for _, value := range values {
			ctx.SetHeader(name, value)
		}
	}
	kind := admin.KindAccess
	if status == http.StatusServiceUnavailable {
		kind = admin.KindUnavailable
	}
	return admin.NewProblem(status, kind, detail)
}

// refuse answers with a problem and writes it to the audit.
func (a *API) refuse(ctx huma.Context, attempt *attempt, p *admin.Problem) {
	writeProblem(ctx, p)
	a.audit(ctx.Context(), attempt.record, p.Status, p.Detail)
}

// Rejected writes a request that was rejected before it reached the API to the audit. It is an
// [access.Rejected].
func (a *API) Rejected(r *http.Request, why, detail string) {
	record := &audit.Record{Who: audit.Unauthenticated, From: a.config.Clients.Addr(r).String(), Operation: why}
	a.audit(r.Context(), record, http.StatusForbidden, detail)
}

func writeProblem(ctx huma.Context, p *admin.Problem) {
	_, w := humago.Unwrap(ctx)
	write(w.Header(), ctx.SetStatus, w, p)
}

// rolesOf returns the roles that may call an operation. An operation without one is
// refused to all callers.
func rolesOf(op *huma.Operation) (roles []config.Role) {
	for _, requirement := range op.Security {
		if needed := requirement[schemeBearer]; len(needed) == 1 {
			roles = append(roles, config.Role(needed[0]))
		}
	}
	return roles
}

// attempt is an operation in progress, for the audit.
type attempt struct {
	record  *audit.Record
	request *http.Request
	problem string
	// bucket is set by operations on buckets. edited is set once the rules that the caller
	// has sent are applied: invalid ones before are those of the source. sent is set after a
	// change was sent to the source.
	bucket, edited, sent bool
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

// audit completes a record and writes it.
func (a *API) audit(ctx context.Context, r *audit.Record, status int, detail string) {
	r.Status, r.Detail = status, detail
	switch {
	case r.Changes != nil && r.Outcome == audit.Changed: // perhaps a part, before an error
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusPreconditionFailed:
		r.Outcome = audit.Refused
	case status >= http.StatusBadRequest:
		r.Outcome = audit.Failed
	case r.Before == r.After && r.Outcome == "":
		r.Outcome = audit.Unchanged
	case r.Outcome == "":
		r.Outcome = audit.Changed
	}
	a.config.Audit.Write(context.WithoutCancel(ctx), *r)
}
