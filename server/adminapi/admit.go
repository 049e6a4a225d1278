package adminapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
)

// write writes a problem.
func write(header http.Header, status func(int), body io.Writer, p *admin.Problem) {
	header.Set("Content-Type", p.ContentType(""))
	header.Set("Cache-Control", "no-store")
	status(p.Status)
	_ = json.NewEncoder(body).Encode(p) // the caller may have left
}

// admit lets through who has the role that an operation needs, and writes the
// audit: of every change, and of every attempt that was refused.
func (a *API) admit(ctx huma.Context, next func(huma.Context)) {
	request, _ := humago.Unwrap(ctx)
	op, asks := ctx.Operation(), callerOf(ctx.Context())
	record := &audit.Record{
		Operation: op.OperationID, RuleSet: named(ctx, "ruleSet"), Rule: named(ctx, "rule"), From: a.client(request).String(),
	}
	if record.Who = audit.Nobody; asks.who != nil {
		record.Who = asks.who.Name
	}
	role := roleOf(op)
	var problem *admin.Problem
	if asks.err != nil {
		problem = a.unknown(ctx, request, asks.err)
	} else {
		problem = a.refusal(role, record.RuleSet, asks.who)
	}
	if problem == nil && role == config.RoleWrite && a.config.Audit.Broken() != nil {
		// The record of this attempt is what tries the audit again.
		problem = admin.NewProblem(http.StatusServiceUnavailable, admin.KindUnavailable,
			"Nothing can be changed now: the audit cannot be written, see the server's log. Try again when it is mended.")
	}
	if problem != nil {
		a.refuse(ctx, problem)
		a.write(ctx.Context(), record, problem.Status, problem.Detail)
		return
	}
	// Nothing of the body was read yet.
	release, err := a.slots.Take(ctx.Context(), a.callerName(request))
	if err != nil {
		problem = admin.NewProblem(http.StatusServiceUnavailable, admin.KindLimited,
			"The server is busy with other requests, most of them perhaps of the same caller. Nothing was done: try again.")
		ctx.SetHeader("Retry-After", "1")
		a.refuse(ctx, problem)
		if role == config.RoleWrite {
			a.write(ctx.Context(), record, problem.Status, problem.Detail)
		}
		return
	}
	defer release()
	within, cancel := context.WithTimeout(ctx.Context(), timeout)
	defer cancel()
	changes := &changing{record: record, request: request}
	if role == config.RoleWrite {
		defer func() {
			failure := recover()
			if failure != nil {
				a.write(ctx.Context(), record, http.StatusInternalServerError, "the server failed: the change may have been made")
				panic(failure)
			}
			a.write(ctx.Context(), record, ctx.Status(), changes.problem)
		}()
	}
	next(huma.WithContext(ctx, context.WithValue(within, changingKey{}, changes)))
}

// named is what a path names, if it can be an id: whatever else somebody wrote
// there has no place in the audit.
func named(ctx huma.Context, parameter string) string {
	if id := ctx.Param(parameter); id == "" || fluxgate.ValidID(id) {
		return id
	}
	return "(not an id)"
}

// unknown is what a caller is told whom nobody knows.
func (a *API) unknown(ctx huma.Context, r *http.Request, err error) *admin.Problem {
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

// refusal is why a caller may not do what needs a role, or nil.
func (a *API) refusal(role config.Role, ruleSet string, who *access.Identity) *admin.Problem {
	switch {
	case role == "":
		return admin.NewProblem(http.StatusForbidden, admin.KindAccess, "Nobody may do this.")
	case ruleSet == "" && !who.MayAny(role):
		return admin.NewProblem(http.StatusForbidden, admin.KindAccess, "The role "+string(role)+" is needed, which "+who.Name+" does not have.")
	case ruleSet != "" && !who.May(role, ruleSet):
		return admin.NewProblem(http.StatusForbidden, admin.KindAccess, "The role "+string(role)+" on rule set "+ruleSet+" is needed, which "+who.Name+" does not have.")
	}
	return nil
}

func (a *API) refuse(ctx huma.Context, p *admin.Problem) {
	_, w := humago.Unwrap(ctx)
	write(w.Header(), ctx.SetStatus, w, p)
}

// roleOf is the role that an operation needs. One that says none is refused to
// all.
func roleOf(op *huma.Operation) config.Role {
	for _, requirement := range op.Security {
		if roles := requirement[schemeBearer]; len(roles) == 1 {
			return config.Role(roles[0])
		}
	}
	return ""
}

// changing is what an operation says of its change, for the audit.
type changing struct {
	record  *audit.Record
	request *http.Request
	problem string
	// bucket is set where buckets are asked for, sent where a change was sent
	// to the source.
	bucket, sent bool
}

type changingKey struct{}

func changingOf(ctx context.Context) *changing { return ctx.Value(changingKey{}).(*changing) }

// write ends a record.
func (a *API) write(ctx context.Context, r *audit.Record, status int, detail string) {
	r.Status, r.Detail = status, detail
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusPreconditionFailed:
		r.Outcome = audit.Refused
	case status >= http.StatusBadRequest:
		r.Outcome = audit.Failed
	case r.Before == r.After && r.Outcome == "":
		r.Outcome = audit.Unchanged
	case r.Outcome == "":
		r.Outcome = audit.Changed
	}
	_ = a.config.Audit.Write(context.WithoutCancel(ctx), *r) // it logs, and Broken remembers
}
