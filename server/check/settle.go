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
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// settleTimeout bounds settling after the ledger has answered.
	settleTimeout = time.Second
	// laterTimeout bounds the wait for the ledger of a settlement that is queued. No caller
	// waits for it, and a Redis that is far away answers on a new connection after several
	// round trips.
	laterTimeout = 5 * time.Second
)

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
	who := access.From(r.Context())
	claim, err := a.config.Issuer.Claim(asked.Receipt, func(ruleSet string) bool { return a.allowed(who, ruleSet) })
	if err != nil {
		a.refuseReceipt(w, r, err)
		return
	}
	// Settling does not end with the request: a caller that has gone has used
	// its tokens, and its receipt is spent.
	answer, err := a.settleOrQueue(context.WithoutCancel(r.Context()), claim, &asked, &usage)
	switch {
	case errors.Is(err, errUnsettled):
		a.config.Failed(r, err)
		newProblem(http.StatusServiceUnavailable, "The receipt was accepted, but could not be settled.").write(w, r)
	case err != nil:
		a.refuseReceipt(w, r, err)
	default:
		body, _ := json.Marshal(answer) // numbers and names: never fails
		writeJSON(w, body)
	}
}

var (
	// errNoAnswer means that the ledger did not say whether the receipt is spent.
	errNoAnswer = errors.New("the ledger of receipts does not answer")
	// errUnsettled means that a receipt is spent, and may not be settled.
	errUnsettled = errors.New("settling a receipt")
)

// settleOrQueue settles a claim, now or when the ledger answers again.
func (a *API) settleOrQueue(ctx context.Context, claim *receipt.Claim, asked *wire.Settle, usage *fluxgate.Usage) (answer any, err error) {
	entered, err := a.later.enter(claim)
	switch {
	case err != nil:
		return nil, err
	case a.later.away():
		err = errNoAnswer
	default:
		if answer, err = a.redeem(ctx, claim, asked, usage, a.config.LedgerTimeout); errors.Is(err, errNoAnswer) {
			a.later.silent()
		}
	}
	if !errors.Is(err, errNoAnswer) {
		a.later.answered()
		if entered {
			a.later.leave(claim.ID)
		}
		return answer, err
	}
	if text, _ := json.Marshal(asked); !entered || !a.later.park(claim, text, err) { // never fails to encode
		return nil, fmt.Errorf("settling a receipt: too many settlements wait: %w", err)
	}
	if asked.Usage == nil {
		return wire.Settlement{Queued: true}, nil
	}
	measures := map[string]store.Settlement{}
	for i := range claim.Receipt.Takes {
		if price := claim.Receipt.Price(i); price != nil {
			measures[price.Measure] = store.Settlement{}
		} else {
			measures[rules.MeasureRequests] = store.Settlement{}
		}
	}
	return wire.Settlements{Measures: measures, Queued: true}, nil
}

// redeem spends a claim and settles its receipt. The wait for the ledger ends with ctx, and at the
// latest after ledgerTimeout.
func (a *API) redeem(
	ctx context.Context, claim *receipt.Claim, asked *wire.Settle, usage *fluxgate.Usage, ledgerTimeout time.Duration,
) (answer any, err error) {
	if !a.config.Available() {
		return nil, errNoAnswer
	}
	asking, stop := context.WithTimeout(ctx, ledgerTimeout)
	err = a.config.Issuer.Spend(asking, claim)
	stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	switch {
	case errors.Is(err, receipt.ErrFull):
		a.releaseSlots(ctx, claim.Receipt)
		return nil, err
	case errors.Is(err, receipt.ErrSpent), errors.Is(err, receipt.ErrDenied):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if asked.Usage == nil {
		answer, err = a.config.Limiter.Settle(ctx, claim.Receipt, *asked.Actual)
	} else {
		var settled wire.Settlements
		settled.Measures, err = a.config.Limiter.SettleUsage(ctx, claim.Receipt, usage)
		answer = settled
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsettled, err)
	}
	return answer, nil
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
	case asked.Actual != nil && *asked.Actual > store.MaxCost:
		return badRequest("actual: at most %d is possible", int64(store.MaxCost))
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
		if a.config.Issuer.Alone() {
			a.stranger.Do(func() {
				a.config.Logger.Warn("a receipt was refused: settle.receipt-secret-file is not set, so this server only accepts receipts " +
					"that it has issued since its start. Set the file to the same secret on all servers")
			})
		}
		refused(http.StatusForbidden, receipt.ErrForged).write(w, r)
	default:
		a.config.Failed(r, err)
		p := newProblem(http.StatusServiceUnavailable, "Receipts are unavailable: try again later.")
		p.retryAfter = "1"
		p.write(w, r)
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
