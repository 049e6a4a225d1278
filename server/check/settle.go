package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// settleTimeout bounds settling.
const settleTimeout = time.Second

// errNoReceipt is for callers that pass on the receipt of any decision.
var errNoReceipt = fmt.Errorf("%w: it is empty; a decision that took no tokens has none to settle", receipt.ErrRefused)

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
	var usage fluxgate.Usage
	if p := checkSettle(&asked, &usage); p != nil {
		p.write(w, r)
		return
	}
	// Settling does not end with the request: a caller that has gone has used
	// its tokens, and its receipt is spent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settleTimeout)
	defer cancel()
	who := access.From(r.Context())
	taken, err := a.config.Issuer.RedeemFor(ctx, asked.Receipt, func(ruleSet string) bool { return a.allowed(who, ruleSet) })
	if errors.Is(err, receipt.ErrFull) {
		a.releaseSlots(ctx, taken)
	}
	if err != nil {
		a.refuseReceipt(w, r, err)
		return
	}
	var answer any
	if asked.Usage == nil {
		answer, err = a.config.Limiter.Settle(ctx, taken, *asked.Actual)
	} else {
		var settled wire.Settlements
		settled.Measures, err = a.config.Limiter.SettleUsage(ctx, taken, &usage)
		answer = settled
	}
	if err != nil {
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The receipt was accepted, but could not be settled.").write(w, r)
		return
	}
	body, _ := json.Marshal(answer) // numbers and names: never fails
	writeJSON(w, body)
}

// releaseSlots releases the slots of a receipt and leaves its cost as it is. To do so
// twice changes nothing.
func (a *API) releaseSlots(ctx context.Context, r *fluxgate.Receipt) {
	for _, t := range r.Takes {
		if t.HoldsSlot() {
			_, _ = a.config.Limiter.Settle(ctx, &fluxgate.Receipt{Takes: store.Takes{t}}, t.Cost) // its answer is that of the settlement
		}
	}
}

// checkSettle fills in the usage of a settlement, if it has one. It returns what is wrong
// with the settlement, or nil.
func checkSettle(asked *wire.Settle, usage *fluxgate.Usage) *problem {
	switch {
	case asked.Receipt == "":
		return refused(http.StatusForbidden, errNoReceipt)
	case (asked.Actual == nil) == (asked.Usage == nil):
		return badRequest("one of actual and usage is required")
	case asked.Actual != nil && *asked.Actual < 0:
		return badRequest("actual: cannot be negative")
	case asked.Usage != nil:
		if err := asked.Usage.To(usage); err != nil {
			return badRequest("usage: %v", err)
		}
	}
	return nil
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
// lifetime, also if it has lost a part of them. Callers need the same role as for settling.
func (a *API) extend(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var asked wire.Extend
	if p := a.read(s, r, max(a.config.MaxBody, 512<<10), &asked); p != nil {
		p.write(w, r)
		return
	}
	if asked.Receipt == "" {
		refused(http.StatusForbidden, errNoReceipt).write(w, r)
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
	case errors.Is(err, fluxgate.ErrPartlyHeld):
		body, _ := json.Marshal(partlyHeld{refused(http.StatusConflict, err).Problem, token}) // never fails
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write(body) // the caller may have gone
	case errors.Is(err, fluxgate.ErrNotHeld):
		refused(http.StatusConflict, err).write(w, r)
	case err != nil:
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The slots could not be renewed.").write(w, r)
	default:
		body, _ := json.Marshal(wire.Extend{Receipt: token}) // never fails
		writeJSON(w, body)
	}
}

// partlyHeld is the problem of a receipt that has lost a part of its slots.
type partlyHeld struct {
	httplimit.Problem
	Receipt string `json:"receipt"` // to use from then on
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

type compatibleAnswer struct {
	Allowed      bool  `json:"allowed"`
	Remaining    int64 `json:"remaining"`
	RetryAfterMs int64 `json:"retryAfterMs"`
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
		RuleSet: asked.RuleSetID, IP: asked.ClientIP, UserID: asked.UserID, APIKey: asked.APIKey,
		Path: asked.Endpoint, Method: asked.Method,
	}
	if d, ok := a.answer(w, r, s, "ruleSetId"); ok {
		// Rounded up: the request must fit after so many milliseconds.
		retry := (d.RetryAfter + time.Millisecond - 1).Milliseconds()
		body, _ := json.Marshal(compatibleAnswer{d.Allowed, d.Remaining, retry}) // never fails
		writeJSON(w, body)
	}
}
