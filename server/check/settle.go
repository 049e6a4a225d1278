package check

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/receipt"
)

// settleTimeout bounds settling.
const settleTimeout = time.Second

// settle corrects what a request cost. A receipt is spent before it is
// settled: if that fails it is not settled twice. Callers settle receipts of
// rule sets that they may check.
func (a *API) settle(rw http.ResponseWriter, r *http.Request) {
	w := works.Get().(*work)
	defer w.release()
	var asked wire.Settle
	if p := a.read(w, r, max(a.config.MaxBody, 512<<10), &asked); p != nil {
		p.write(rw, r)
		return
	}
	if asked.Actual < 0 {
		badRequest("actual: cannot be negative").write(rw, r)
		return
	}
	// A caller that has gone has used what it has used, and its receipt is
	// spent: this does not end with the request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settleTimeout)
	defer cancel()
	who := access.From(r.Context())
	taken, err := a.config.Office.RedeemFor(ctx, asked.Receipt, func(ruleSet string) bool { return a.may(who, ruleSet) })
	switch {
	case errors.Is(err, receipt.ErrExpired):
		refused(http.StatusGone, err).write(rw, r)
		return
	case errors.Is(err, receipt.ErrSpent):
		refused(http.StatusConflict, err).write(rw, r)
		return
	case errors.Is(err, receipt.ErrForeign):
		refused(http.StatusForbidden, err).write(rw, r)
		return
	case errors.Is(err, receipt.ErrRefused):
		refused(http.StatusForbidden, receipt.ErrForged).write(rw, r)
		return
	case err != nil:
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "Receipts cannot be looked up right now.").write(rw, r)
		return
	}
	s, err := a.config.Limiter.Settle(ctx, taken, asked.Actual)
	if err != nil {
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The receipt was accepted, but could not be settled.").write(rw, r)
		return
	}
	w.answer = strconv.AppendInt(append(w.answer[:0], `{"returned":`...), s.Returned, 10)
	w.answer = strconv.AppendInt(append(w.answer, `,"charged":`...), s.Charged, 10)
	writeJSON(rw, append(w.answer, '}'))
}

// compatibleRequest is what existing clients of FluxGate ask.
type compatibleRequest struct {
	RuleSetID string `json:"ruleSetId"`
	ClientIP  string `json:"clientIp"`
	UserID    string `json:"userId"`
	APIKey    string `json:"apiKey"`
	Endpoint  string `json:"endpoint"`
	Method    string `json:"method"`
}

// compatible is check for existing clients.
func (a *API) compatible(rw http.ResponseWriter, r *http.Request) {
	w := works.Get().(*work)
	defer w.release()
	var asked compatibleRequest
	if p := a.read(w, r, a.config.MaxBody, &asked); p != nil {
		p.write(rw, r)
		return
	}
	w.asked = wire.Request{
		RuleSet: asked.RuleSetID, IP: asked.ClientIP, UserID: asked.UserID, APIKey: asked.APIKey, Path: asked.Endpoint, Method: asked.Method,
	}
	if err := w.asked.To(&w.request); err != nil {
		badRequest("%v", err).write(rw, r)
		return
	}
	if !a.may(access.From(r.Context()), asked.RuleSetID) {
		notTheirs("ruleSetId").write(rw, r)
		return
	}
	d, err := a.config.Limiter.Check(r.Context(), &w.request)
	if err != nil {
		w.lent = true
		a.failure(r, err).write(rw, r)
		return
	}
	writeJSON(rw, appendCompatible(w.answer[:0], &d))
}

func appendCompatible(b []byte, d *fluxgate.Decision) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	// Rounded up: who comes again after so many milliseconds must fit.
	retry := d.RetryAfter.Milliseconds()
	if d.RetryAfter%1_000_000 > 0 {
		retry++
	}
	b = strconv.AppendInt(append(b, `,"retryAfterMs":`...), retry, 10)
	return append(b, '}')
}
