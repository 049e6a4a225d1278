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

// settle corrects the cost of a request. A receipt is spent before it is settled,
// so that it is never settled twice. Callers need the role check on the rule set
// of the receipt.
func (a *API) settle(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var asked wire.Settle
	if p := a.read(s, r, max(a.config.MaxBody, 512<<10), &asked); p != nil {
		p.write(w, r)
		return
	}
	if asked.Actual < 0 {
		badRequest("actual: cannot be negative").write(w, r)
		return
	}
	// Settling does not end with the request: a caller that has gone has used
	// its tokens, and its receipt is spent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settleTimeout)
	defer cancel()
	who := access.From(r.Context())
	taken, err := a.config.Issuer.RedeemFor(ctx, asked.Receipt, func(ruleSet string) bool { return a.allowed(who, ruleSet) })
	if err != nil {
		a.refuseReceipt(w, r, err)
		return
	}
	settled, err := a.config.Limiter.Settle(ctx, taken, asked.Actual)
	if err != nil {
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The receipt was accepted, but could not be settled.").write(w, r)
		return
	}
	s.answer = strconv.AppendInt(append(s.answer[:0], `{"returned":`...), settled.Returned, 10)
	s.answer = strconv.AppendInt(append(s.answer, `,"charged":`...), settled.Charged, 10)
	writeJSON(w, append(s.answer, '}'))
}

// refuseReceipt answers a request with a receipt that cannot be used.
func (a *API) refuseReceipt(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, receipt.ErrExpired):
		refused(http.StatusGone, err).write(w, r)
	case errors.Is(err, receipt.ErrSpent):
		refused(http.StatusConflict, err).write(w, r)
	case errors.Is(err, receipt.ErrForeign):
		refused(http.StatusForbidden, err).write(w, r)
	case errors.Is(err, receipt.ErrRefused):
		refused(http.StatusForbidden, receipt.ErrForged).write(w, r)
	default:
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "Receipts are unavailable: try again later.").write(w, r)
	}
}

// extend renews the slots that a receipt holds, and returns the receipt with another
// lifetime. Callers need the same role as for settling.
func (a *API) extend(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var asked wire.Extend
	if p := a.read(s, r, max(a.config.MaxBody, 512<<10), &asked); p != nil {
		p.write(w, r)
		return
	}
	who := access.From(r.Context())
	held, token, err := a.config.Issuer.Renew(asked.Receipt, func(ruleSet string) bool { return a.allowed(who, ruleSet) })
	if err != nil {
		a.refuseReceipt(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), settleTimeout)
	defer cancel()
	switch err := a.config.Limiter.Extend(ctx, held); {
	case errors.Is(err, fluxgate.ErrNotHeld):
		refused(http.StatusConflict, err).write(w, r)
	case err != nil:
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The slots could not be renewed.").write(w, r)
	default:
		s.answer = strconv.AppendQuote(append(s.answer[:0], `{"receipt":`...), token)
		writeJSON(w, append(s.answer, '}'))
	}
}

// compatibleRequest is the request of existing FluxGate clients.
type compatibleRequest struct {
	RuleSetID string `json:"ruleSetId"`
	ClientIP  string `json:"clientIp"`
	UserID    string `json:"userId"`
	APIKey    string `json:"apiKey"`
	Endpoint  string `json:"endpoint"`
	Method    string `json:"method"`
}

// compatible is check for existing clients.
func (a *API) compatible(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var asked compatibleRequest
	if p := a.read(s, r, a.config.MaxBody, &asked); p != nil {
		p.write(w, r)
		return
	}
	s.asked = wire.Request{
		RuleSet: asked.RuleSetID, IP: asked.ClientIP, UserID: asked.UserID, APIKey: asked.APIKey, Path: asked.Endpoint, Method: asked.Method,
	}
	if d, ok := a.answer(w, r, s, "ruleSetId"); ok {
		writeJSON(w, appendCompatible(s.answer[:0], &d))
	}
}

func appendCompatible(b []byte, d *fluxgate.Decision) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	// Rounded up: the request must fit after so many milliseconds.
	retry := d.RetryAfter.Milliseconds()
	if d.RetryAfter%1_000_000 > 0 {
		retry++
	}
	b = strconv.AppendInt(append(b, `,"retryAfterMs":`...), retry, 10)
	return append(b, '}')
}
