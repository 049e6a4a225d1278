package grpclimit

import (
	"cmp"
	"errors"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// errorDomain is who gives the reasons, in errdetails.ErrorInfo.
const errorDomain = "fluxgate"

// Rejection is the answer to a rejected call.
type Rejection struct {
	// Status is the answer, unless the function of [WithRejection] returns another.
	Status *status.Status
	// Decision is the decision. It is zero if there is none because of Err.
	Decision fluxgate.Decision
	// Err is why there is no decision: the client has disconnected, or a failure that
	// must not be shown to it.
	Err error
}

// refuse returns the error for a call that does not pass, of the user's function if
// there is one.
func (g *gate) refuse(call *Call, rejection *Rejection) error {
	if g.reject == nil {
		return rejection.Status.Err()
	}
	var answer error
	if err := g.Guard(func() { answer = g.reject(call, rejection) }); err != nil {
		g.Report(call, err)
		return failure(call, err).Status.Err()
	}
	if answer == nil { // no answer must not let the call pass
		return rejection.Status.Err()
	}
	return answer
}

// fail returns the error for a call without a decision.
func (g *gate) fail(call *Call, err error) error {
	g.Report(call, err)
	return g.refuse(call, failure(call, err))
}

// failure returns the answer without a decision.
func failure(call *Call, err error) *Rejection {
	code, detail := codes.Internal, "The call could not be decided."
	if errors.Is(err, ErrRepeatedHeader) {
		code, detail = codes.InvalidArgument, middleware.RepeatedHeaderDetail
	}
	if errors.Is(err, fluxgate.ErrNoRuleSet) {
		d := fluxgate.Decision{Reason: fluxgate.ReasonNoRuleSet}
		return &Rejection{Status: rejection(&d).Status, Err: err}
	}
	if errors.Is(err, fluxgate.ErrRulesLoading) {
		code = codes.Unavailable
	}
	if end := call.ctx.Err(); end != nil && errors.Is(err, end) {
		code, detail = status.FromContextError(end).Code(), "The client disconnected."
		if code == codes.DeadlineExceeded {
			detail = middleware.DeadlineDetail
		}
	}
	return &Rejection{Status: status.New(code, detail), Err: err}
}

// otherCodes are those of reasons other than an exceeded quota.
var otherCodes = map[fluxgate.Reason]codes.Code{
	fluxgate.ReasonDenied:          codes.PermissionDenied,
	fluxgate.ReasonBadPath:         codes.InvalidArgument,
	fluxgate.ReasonTooManyRules:    codes.PermissionDenied,
	fluxgate.ReasonMissingIdentity: codes.PermissionDenied,
	fluxgate.ReasonNoRule:          codes.PermissionDenied,
	fluxgate.ReasonNoRuleSet:       codes.Unavailable,
	fluxgate.ReasonStoreFailure:    codes.Unavailable,
}

// rejection returns the answer to a decision.
func rejection(d *fluxgate.Decision) *Rejection {
	reason := strings.ToUpper(strings.ReplaceAll(string(d.Reason), "-", "_"))
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}}
	code, ok := otherCodes[d.Reason]
	if !ok {
		code = codes.ResourceExhausted
		details = append(details, quotaFailure(d))
		if d.RetryAfter > 0 {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
		}
	}
	answer := status.New(code, detail(d))
	if detailed, err := answer.WithDetails(details...); err == nil { // it never fails: the code is not OK
		answer = detailed
	}
	return &Rejection{Status: answer, Decision: *d}
}

func detail(d *fluxgate.Decision) string {
	return cmp.Or(middleware.Detail(d), "The assigned quota has been exceeded.")
}

// quotaFailure lists the policies that a call exceeds, the binding one first.
func quotaFailure(d *fluxgate.Decision) *errdetails.QuotaFailure {
	failure := new(errdetails.QuotaFailure)
	for i, name := range middleware.Violated(d) {
		violation := &errdetails.QuotaFailure_Violation{Subject: name}
		if i == 0 {
			violation.Description = detail(d)
		}
		failure.Violations = append(failure.Violations, violation)
	}
	return failure
}
