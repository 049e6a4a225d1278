package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/fluxgate/fluxgate"
)

// StatusClientClosedRequest is the status of a request whose client has gone, for
// the logs of outer handlers.
const StatusClientClosedRequest = 499

// The problem type of the IETF's draft, and its title.
const (
	quotaExceeded      = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	quotaExceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"
)

// Rejection is the answer to a request that does not pass.
type Rejection struct {
	// Problem is what [Rejection.Write] writes.
	Problem Problem
	// Decision is why. It is zero if there is none because of Err.
	Decision fluxgate.Decision
	// Err is why there is no decision: the client has gone, or a failure that
	// must not be shown to it.
	Err error
}

// Problem is a problem document as in RFC 9457.
type Problem struct {
	// Type is a URI, or empty if Status is enough.
	Type string `json:"type,omitempty"`
	// Title is what Type means.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail is what happened and what to do.
	Detail string `json:"detail,omitempty"`
	// Reason is the decision's.
	Reason fluxgate.Reason `json:"reason,omitempty"`
	// ViolatedPolicies are the policies that refuse the request, named as in
	// RateLimit-Policy.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Write writes the problem as the answer to a request: as JSON, or without a body
// if the client has gone.
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
	if seconds := ceilSeconds(rejection.Decision.RetryAfter); seconds > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if g.reject == nil {
		rejection.Write(w, r)
		return
	}
	watched := &watchedWriter{ResponseWriter: w}
	err := guard(func() { g.reject(watched, r, rejection) })
	if err == nil {
		return
	}
	g.report(r, err)
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
		status, detail = http.StatusBadRequest, "A header that names the caller was sent more than once."
	}
	if end := r.Context().Err(); end != nil && errors.Is(err, end) {
		status = StatusClientClosedRequest
		if errors.Is(end, context.DeadlineExceeded) {
			status, detail = http.StatusServiceUnavailable, "The request ran out of time before it was let in."
		}
	}
	return &Rejection{Problem: plain(status, detail, ""), Err: err}
}

// rejection returns the answer to a decision.
func rejection(d *fluxgate.Decision) *Rejection {
	var p Problem
	switch d.Reason {
	case fluxgate.ReasonDenied:
		p = plain(http.StatusForbidden, "A rule denies this request.", d.Reason)
	case fluxgate.ReasonBadPath:
		p = plain(http.StatusBadRequest, "The path is too long or can be read in more than one way: send it without #, backslash, %2F, dot segments and empty segments.", d.Reason)
	case fluxgate.ReasonTooManyRules:
		p = plain(http.StatusForbidden, "More rules apply to this request than can be counted.", d.Reason)
	case fluxgate.ReasonMissingIdentity:
		p = plain(http.StatusForbidden, "The request does not say who it is from, and a rule asks for it.", d.Reason)
	case fluxgate.ReasonNoRule:
		p = plain(http.StatusForbidden, "No rule lets this request pass.", d.Reason)
	case fluxgate.ReasonNoRuleSet:
		p = plain(http.StatusServiceUnavailable, "There are no rules to decide this request by.", d.Reason)
	case fluxgate.ReasonStoreFailure:
		p = plain(http.StatusServiceUnavailable, "The request cannot be counted right now.", d.Reason)
	default:
		p = Problem{
			Type: quotaExceeded, Title: quotaExceededTitle, Status: http.StatusTooManyRequests,
			Detail: exceeded(d), Reason: d.Reason, ViolatedPolicies: violated(d),
		}
	}
	return &Rejection{Problem: p, Decision: *d}
}

// plain returns a problem without a type.
func plain(status int, detail string, reason fluxgate.Reason) Problem {
	return Problem{Title: http.StatusText(status), Status: status, Detail: detail, Reason: reason}
}

// exceeded describes which policy a request exceeds.
func exceeded(d *fluxgate.Decision) string {
	if d.Band == "" {
		return ""
	}
	cost := int64(1)
	for b := range d.Bands() {
		if b.Rule.ID == d.RuleID && !b.Shadow() {
			cost = b.Cost
		}
	}
	if d.Reason == fluxgate.ReasonCostTooHigh {
		return fmt.Sprintf("The request costs %d, and %s.%s never has more than %d: it cannot pass.", cost, d.RuleID, d.Band, d.Limit)
	}
	detail := fmt.Sprintf("%s.%s has %d of %d left, and the request costs %d.", d.RuleID, d.Band, d.Remaining, d.Limit, cost)
	if d.Owed > 0 {
		detail = fmt.Sprintf("%s.%s owes %s, and the request costs %d.", d.RuleID, d.Band, tokens(d.Owed), cost)
	}
	if seconds := ceilSeconds(d.RetryAfter); seconds > 0 {
		detail += fmt.Sprintf(" Try again in %ds.", seconds)
	}
	return detail
}

func tokens(n int64) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// violated returns the policies that a request exceeds, the binding one first.
func violated(d *fluxgate.Decision) []string {
	if d.Band == "" {
		return nil
	}
	names := []string{d.RuleID + "." + d.Band}
	for b := range d.Bands() {
		exceeds := b.Status == fluxgate.Rejected && b.Wait > 0 ||
			b.Status == fluxgate.TooCostly && b.Cost > b.Limit
		if b.Shadow() || !exceeds {
			continue
		}
		if name := b.Rule.ID + "." + b.Band.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == maxEntries {
			break
		}
	}
	return names
}
