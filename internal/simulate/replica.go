package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// replica decides requests by one rule set as a server would, on the clock of the log.
type replica struct {
	engine  *fluxgate.Engine
	store   *memstore.Store
	now     time.Time // of the log
	applied []appliedRule
}

// appliedRule is a rule that applied to the request that was decided last.
type appliedRule struct {
	id     string
	limits bool
}

func newReplica(set *rules.Set) (r *replica, err error) {
	r = &replica{}
	if r.store, err = memstore.New(memstore.Config{Clock: func() time.Time { return r.now }}); err != nil {
		return nil, err
	}
	r.engine, err = fluxgate.New(r.store, fluxgate.Static(set))
	return r, err
}

// decide decides a request and reports whether it is limited.
func (r *replica) decide(ctx context.Context, e *entry) (limited bool, err error) {
	r.applied, r.now = r.applied[:0], e.at
	d, err := r.engine.Check(ctx, &e.req)
	if err != nil {
		return false, fmt.Errorf("deciding a request: %w", err)
	}
	if _, holds := d.Hold(); holds {
		// A log does not say how long a request ran: its slot is free again at once.
		if _, err := r.engine.Settle(ctx, d.Receipt(), max(1, e.req.Cost)); err != nil {
			return false, fmt.Errorf("ending a request: %w", err)
		}
	}
	for evaluated := range d.Evaluated(&e.req) {
		r.applied = append(r.applied, appliedRule{evaluated.Rule.ID, evaluated.Status != store.OK})
	}
	switch d.Reason {
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity, fluxgate.ReasonExempt: // the rule was not evaluated
		if !slices.ContainsFunc(r.applied, func(a appliedRule) bool { return a.id == d.RuleID }) {
			r.applied = append(r.applied, appliedRule{d.RuleID, !d.Allowed})
		}
	}
	return !d.Allowed, nil
}
