package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
)

// StatusClientClosedRequest is the status of a request whose client has disconnected,
// for the logs of outer handlers.
const StatusClientClosedRequest = 499

// The problem type of the IETF's draft, and its title.
const (
	quotaExceeded      = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	quotaExceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"
)

// Rejection is the answer to a rejected request.
type Rejection struct {
	// Problem is the document that [Rejection.Write] writes.
	Problem Problem
	// Decision is the decision. It is zero if there is none because of Err.
	Decision fluxgate.Decision
	// Err is why there is no decision: the client has disconnected, or a failure that
	// must not be shown to it.
	Err error
}

// Problem is a problem document as in RFC 9457.
type Problem struct {
	// Type is a URI, or empty if Status is enough.
	Type string `json:"type,omitempty"`
	// Title is the meaning of Type.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail is what happened and what to do.
	Detail string `json:"detail,omitempty"`
	// Reason is the reason of the decision.
	Reason fluxgate.Reason `json:"reason,omitempty"`
	// ViolatedPolicies are the policies that reject the request, named as in
	// RateLimit-Policy.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Write writes the problem as the answer to a request: as JSON, or without a body
// if the client has disconnected.
func (rejection *Rejection) Write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, stale := range []string{"Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(stale) // of another body
	}
	h.Set("Cache-Control", "no-store")
	if rejection.Problem.Status == StatusClientClosedRequest {
		w.WriteHeader(rejection.Problem.Status)
		return
	}
	body, _ := json.Marshal(&rejection.Problem) // strings and numbers: never fails
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(rejection.Problem.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have gone
	}
}

// refuse answers a request that does not pass, with the user's function if there
// is one. If that panics the answer is 500, or is aborted if it has begun.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, rejection *Rejection) {
	if seconds := middleware.CeilSeconds(rejection.Decision.RetryAfter); seconds > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if g.reject == nil {
		rejection.Write(w, r)
		return
	}
	watched := &watchedWriter{ResponseWriter: w}
	err := g.Guard(func() { g.reject(watched, r, rejection) })
	if err == nil {
		return
	}
	g.Report(r, err)
	if watched.begun {
		panic(http.ErrAbortHandler)
	}
	failure(err, r).Write(w, r)
}

// watchedWriter records whether the answer has begun.
type watchedWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *watchedWriter) WriteHeader(status int) {
	w.begun = w.begun || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *watchedWriter) Unwrap() http.ResponseWriter {
	w.begun = true // flushing and hijacking bypass this writer
	return w.ResponseWriter
}

// failure returns the answer without a decision.
func failure(err error, r *http.Request) *Rejection {
	status, detail := http.StatusInternalServerError, ""
	if errors.Is(err, ErrRepeatedHeader) {
		status, detail = http.StatusBadRequest, middleware.RepeatedHeaderDetail
	}
	if errors.Is(err, fluxgate.ErrNoRuleSet) {
		d := fluxgate.Decision{Reason: fluxgate.ReasonNoRuleSet}
		return &Rejection{Problem: rejection(&d).Problem, Err: err}
	}
	if errors.Is(err, fluxgate.ErrRulesLoading) {
		status = http.StatusServiceUnavailable
	}
	if end := r.Context().Err(); end != nil && errors.Is(err, end) {
		status = StatusClientClosedRequest
		if errors.Is(end, context.DeadlineExceeded) {
			status, detail = http.StatusServiceUnavailable, middleware.DeadlineDetail
		}
	}
	return &Rejection{Problem: plain(status, detail, ""), Err: err}
}

// rejection returns the answer to a decision.
func rejection(d *fluxgate.Decision) *Rejection {
	status, ok := statuses[d.Reason]
	p := plain(status, middleware.Detail(d), d.Reason)
	if !ok {
		p.Type, p.Title, p.Status = quotaExceeded, quotaExceededTitle, http.StatusTooManyRequests
		p.ViolatedPolicies = middleware.Violated(d)
	}
	return &Rejection{Problem: p, Decision: *d}
}

// statuses are those of reasons other than an exceeded quota.
var statuses = map[fluxgate.Reason]int{
	fluxgate.ReasonDenied:          http.StatusForbidden,
	fluxgate.ReasonBadPath:         http.StatusBadRequest,
	fluxgate.ReasonTooManyRules:    http.StatusForbidden,
	fluxgate.ReasonMissingIdentity: http.StatusForbidden,
	fluxgate.ReasonNoRule:          http.StatusForbidden,
	fluxgate.ReasonNoRuleSet:       http.StatusServiceUnavailable,
	fluxgate.ReasonStoreFailure:    http.StatusServiceUnavailable,
}

// plain returns a problem without a type.
func plain(status int, detail string, reason fluxgate.Reason) Problem {
	return Problem{Title: http.StatusText(status), Status: status, Detail: detail, Reason: reason}
}
