package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/warning"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/failover"
	"github.com/fluxgate/fluxgate/store/memstore"
)

var (
	// ErrCost is wrapped by errors about invalid costs, estimates or usage.
	ErrCost = errors.New("invalid cost")
	// ErrTooManyRules is returned by [Engine.Buckets] if more than [store.MaxMatches] rules
	// apply to the request. [Engine.Check] rejects such a request.
	ErrTooManyRules = fmt.Errorf("more than %d rules apply to one request", store.MaxMatches)
	// ErrHook is wrapped by the error of a request for which a function of [WithIdentity] or
	// [WithAmend] failed or panicked.
	ErrHook = errors.New("a user's function failed")
)

// Engine decides requests. It finds the rules that apply to a request, computes the keys of
// their buckets, and takes the tokens from all of them with one call to the store. It is safe
// for concurrent use.
type Engine struct {
	store store.Store
	// decider takes and settles: the store, or failover over it.
	decider  store.Store
	failover *failover.Store // nil over a store in memory
	rules    RuleSets
	keyer    keyer
	salt     []byte // of the store

	ruleSetID    string
	allowMissing bool
	// refuseUnknown refuses requests that name a rule set that does not exist.
	refuseUnknown bool
	// refuseAmbiguous refuses paths that routers may read in more than one way.
	refuseAmbiguous bool
	policy          rules.Policy
	onFailure       rules.OnFailure
	fallback        store.Fallback
	share           float64 // of each band in the fallback; zero means 1 / number of gateways
	maxWait         time.Duration
	waits           waitSlots
	observer        Observer
	amend           func(context.Context, *Request) error
	overrides       *Overrides
	warnings        *warning.Reporter
	namesCallers    bool // warnings name callers
	holdUnended     bool // requests whose end is not reported hold slots
	notEnforced     notEnforced
}

// New returns an engine that decides by rule sets and counts in a store. If several processes
// can share the store, as with store/redisstore, the engine counts in its own memory while
// the store is unavailable: see [WithFallback] and [WithOnFailure].
func New(buckets store.Store, sets RuleSets, options ...Option) (*Engine, error) {
	if buckets == nil || sets == nil {
		return nil, errors.New("an engine needs a store and rule sets")
	}
	e := &Engine{
		store: buckets, rules: sets, salt: buckets.Salt(),
		allowMissing: true, policy: rules.Reject, onFailure: rules.FailLocal,
	}
	e.keyer.ipv6Bits = 64
	e.warnings = warning.New(buckets, func(err error) { e.storeFailed(context.Background(), err) })
	for _, option := range options {
		if err := option(e); err != nil {
			return nil, fmt.Errorf("creating an engine: %w", err)
		}
	}
	if e.overrides != nil && e.overrides.keyer.ipv6Bits != e.keyer.ipv6Bits {
		return nil, errors.New("creating an engine: its overrides have another IPv6 prefix")
	}
	if e.fallback == nil && e.store.Gateways() > 0 {
		local, err := memstore.New(memstore.Config{})
		if err != nil {
			return nil, fmt.Errorf("creating an engine: %w", err)
		}
		e.fallback = local
	}
	e.useStore()
	if static, ok := sets.(staticRuleSets); ok && e.ruleSetID == "" && len(static) == 1 {
		for id := range static {
			e.ruleSetID = id
		}
	}
	if e.ruleSetID != "" {
		if err := e.Require(e.ruleSetID); err != nil {
			return nil, fmt.Errorf("creating an engine: %w", err)
		}
	}
	return e, nil
}

// Require returns an error if the rule set does not exist. Middleware calls it when it is
// created with the id of a rule set, so that a wrong id fails at the start. A [RuleSets]
// without a method Require is not checked.
func (e *Engine) Require(id string) error {
	if sets, ok := e.rules.(interface{ Require(id string) error }); ok {
		return sets.Require(id)
	}
	return nil
}

// Check decides a request. If the tokens of an admitted request are due later
// ([rules.WaitForRefill]), Check returns when they are due. If ctx ends before that, Check
// gives the tokens back as far as possible and returns the error of ctx. An error means that
// there is no decision.
func (e *Engine) Check(ctx context.Context, req *Request) (Decision, error) {
	d, err := e.check(ctx, req)
	if e.observer != nil {
		seen := d // a copy, so that d escapes to the heap only if there is an observer
		e.observer.Decided(ctx, req, &seen, err)
	}
	return d, err
}

func (e *Engine) check(ctx context.Context, req *Request) (Decision, error) {
	set, err := e.ruleSetOf(ctx, req)
	if err != nil {
		return Decision{}, err
	}
	if set.Compiled == nil {
		return e.decideWithoutRuleSet(e.ruleSetIDOf(req))
	}
	return e.decide(ctx, req, set)
}

// ruleSetOf prepares a request and returns its rule set, which may not be loaded. The
// order matters: [WithAmend] may change which rule set the request names.
func (e *Engine) ruleSetOf(ctx context.Context, req *Request) (rulesAt, error) {
	if err := e.prepare(ctx, req); err != nil {
		return rulesAt{}, err
	}
	return e.rules.RuleSet(ctx, e.ruleSetIDOf(req)).at(e.store), nil
}

// prepare calls the function of [WithAmend] and checks the costs that result.
func (e *Engine) prepare(ctx context.Context, req *Request) error {
	if e.amend != nil {
		if err := e.callAmend(ctx, req); err != nil {
			return err
		}
	}
	return req.CheckCosts()
}

func (e *Engine) ruleSetIDOf(req *Request) string {
	if req.RuleSet == "" {
		return e.ruleSetID
	}
	return req.RuleSet
}

func (e *Engine) decide(ctx context.Context, req *Request, set rulesAt) (Decision, error) {
	var p part
	var space [store.MaxMatches + 1]int32
	found := e.findRules(req, set, &p, space[:0])
	if p.decided {
		return p.decision, nil
	}
	v := newEvaluation(len(found))
	v.peek = req.Peek
	if err := e.addDemands(ctx, req, set, found, v, &p); err != nil || p.decided {
		return p.decision, err
	}
	return e.take(ctx, v, p.applyResult)
}

// part is one request of an evaluation. [Engine.Check] has one, [Engine.CheckAll] several.
type part struct {
	applyResult
	// decided means that decision is final without a call to the store, for example because
	// a rule denies the request.
	decided  bool
	decision Decision
	// alternative means that the rule that denies the request has the mode alternative.
	alternative bool
	replaced    []string // ids of rules that other rules replace, which do not apply
	from, to    int      // the range of its demands; with CheckAll, of its [together.places]
}

func (p *part) decide(d Decision) { p.decided, p.decision = true, d }

// findRules returns the rules that apply to a request. If the request needs no call to the
// store, because a rule denies it or no rule applies, findRules decides it in p.
//
// A router may read a path in several ways. The request is denied if one reading is denied,
// and exempt only if all readings are exempt. Otherwise a caller could evade a rule with a
// spelling that the router reads differently.
func (e *Engine) findRules(req *Request, set rulesAt, p *part, space []int32) []int32 {
	if match.Refused(req.Path) || e.refuseAmbiguous && match.Ambiguous(req.Path) {
		p.decide(Decision{Reason: ReasonBadPath})
		return nil
	}
	found := set.match(req, space)
	if len(found.Rules) > store.MaxMatches {
		p.decide(Decision{Reason: ReasonTooManyRules})
		return nil
	}
	if len(p.replaced) > 0 && len(found.Rules) > 0 {
		if found.Rules = set.withoutReplaced(found.Rules, p.replaced); len(found.Rules) == 0 {
			p.decide(Decision{Allowed: true, Reason: ReasonNoRule})
			return nil
		}
	}
	var exempting *compiledRule // the last rule with the action allow
	if found.Ends {
		for _, i := range found.Rules {
			switch r := &set.active[i]; {
			case r.shadow || r.Limits():
			case r.Action == rules.ActionDeny:
				p.decide(Decision{Reason: ReasonDenied, RuleID: r.ID})
				p.alternative = r.Mode == rules.ModeAlternative
				return nil
			default:
				exempting = r
			}
		}
	}
	if !found.Enforced && !e.allowMissing || len(found.Rules) == 0 {
		p.decide(e.noRuleDecision())
		return nil
	}
	if found.Final {
		p.exemptedBy = exempting.ID
	}
	return found.Rules
}

// addDemands adds a demand to the evaluation for each rule that applies and limits.
func (e *Engine) addDemands(
	ctx context.Context, req *Request, set rulesAt, applying []int32, v *evaluation, p *part,
) error {
	list := set.keyedBy(e.salt)
	p.from = len(v.demands)
	for _, i := range applying {
		if r := &list[i]; r.Limits() {
			if err := e.addDemand(ctx, r, req, v, p); err != nil || p.decided {
				return err
			}
		}
	}
	if p.to = len(v.demands); p.to == p.from {
		p.decide(e.unlimited(p.exemptedBy))
	}
	return nil
}

// addDemand adds the demand of a request on the bucket set of one rule. It decides the request
// in p if the rule refuses requests without an identity.
func (e *Engine) addDemand(ctx context.Context, r *keyedRule, req *Request, v *evaluation, p *part) error {
	key, ok, err := r.key(&e.keyer, req)
	switch {
	case err != nil:
		return err
	case !ok && r.shadow:
		return nil
	case !ok:
		p.decide(Decision{Reason: ReasonMissingIdentity, RuleID: r.ID})
		return nil
	}
	r = e.overridden(r, key, req)
	demand := e.newDemand(r, key)
	var price *Price
	demand.Cost, price = r.costOf(req, demand.Bands)
	if r.slots {
		e.addHolder(&demand, req, v)
	}
	if e.maxWait > 0 && e.policyOf(r) == rules.WaitForRefill && !r.Overdraft && !r.CountRefused {
		demand.MaxWait = e.patience(ctx)
		p.waits = p.waits || !r.shadow
	}
	p.enforced = p.enforced || !r.shadow
	if v.warns = v.warns || r.warns; r.warns && e.namesCallers {
		e.nameCaller(r, key, req)
	}
	v.rules = append(v.rules, appliedRule{r, price})
	v.demands = append(v.demands, demand)
	return nil
}

// newDemand returns a demand on a bucket set of the rule. The caller sets what depends on the
// request: cost, holder and longest wait.
func (e *Engine) newDemand(r *keyedRule, key store.KeyID) store.Demand {
	return store.Demand{
		Key:         store.Key{RuleSet: r.RuleSetID, Rule: r.ID, ID: key},
		Bands:       r.bandsNow(e.store),
		Shadow:      r.shadow,
		Overdraft:   r.Overdraft,
		Alternative: r.Mode == rules.ModeAlternative,
		Strict:      r.Consistency == rules.ConsistencyStrict,
		Leased:      r.Consistency == rules.ConsistencyLeased,
		OnFailure:   e.onFailureOf(r),
	}
}

// onFailureOf returns what decides a rule while the store is away.
func (e *Engine) onFailureOf(r *keyedRule) store.OnFailure {
	mode := r.OnFailure
	if mode == "" || mode == rules.FailLocal && e.fallback == nil {
		mode = e.onFailure
	}
	switch {
	case mode == rules.FailClosed:
		return store.FailClosed
	case mode == rules.FailOpen || e.fallback == nil:
		return store.FailOpen
	case r.prices != nil && !r.Overdraft && !r.CountRefused:
		return store.FailLocalCut // an estimate alone never refuses a request for good
	}
	return store.FailLocal
}

// applyResult summarizes the rules that apply to a request.
type applyResult struct {
	enforced   bool   // at least one limiting rule is enforced, not in shadow mode
	waits      bool   // an enforced rule may hold the request
	exemptedBy string // the id of the rule that exempts the request, empty if none does
}

// useStore sets what takes and settles. A store in memory is never away.
func (e *Engine) useStore() {
	e.decider = warningStore{e.store, e}
	if _, inMemory := e.store.(*memstore.Store); inMemory && e.fallback == nil {
		return
	}
	e.failover = failover.New(e.decider, e.fallback, failover.Config{
		Share: e.share, Bands: e.bandsOfTake, Failed: e.storeFailed,
		Withdrawn: func(ctx context.Context, s store.Settlement, err error) {
			if e.observer != nil {
				e.observer.Settled(ctx, s, err)
			}
		},
	})
	e.decider = e.failover
}

func (e *Engine) storeFailed(ctx context.Context, err error) {
	if e.observer != nil {
		e.observer.StoreFailed(ctx, err)
	}
}

// take calls the store, and holds the request until its tokens are due.
func (e *Engine) take(ctx context.Context, v *evaluation, a applyResult) (Decision, error) {
	if a.waits && e.waits.enter(v) {
		defer e.waits.leave(v)
	}
	if err := v.decideIn(ctx, e.decider); err != nil {
		if ctx.Err() != nil {
			return Decision{}, ctx.Err()
		}
		return Decision{}, err
	}
	if v.warns && !v.peek {
		e.warn(v)
	}
	d := v.decision()
	if d.Allowed && !a.enforced {
		d = e.unlimited(a.exemptedBy)
		d.evaluation = v
	}
	d.Degraded = v.degraded()
	if d.Allowed && d.Wait > 0 && !v.peek {
		return e.hold(ctx, d)
	}
	return d, nil
}

// patience returns how long a request may be held: at most maxWait, and not beyond the
// deadline of ctx.
func (e *Engine) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(0, min(e.maxWait, time.Until(deadline)))
	}
	return e.maxWait
}

func (e *Engine) policyOf(r *keyedRule) rules.Policy {
	if r.OnLimitExceed == "" {
		return e.policy
	}
	return r.OnLimitExceed
}

// decideWithoutRuleSet decides a request whose rule set is not loaded. It returns an error only
// with [WithKnownRuleSets].
func (e *Engine) decideWithoutRuleSet(id string) (Decision, error) {
	known, ok := e.rules.(interface {
		Missing(id string) bool
		Loading(id string) bool
	})
	switch {
	case !ok || !e.refuseUnknown || id == e.ruleSetID:
	case known.Missing(id):
		return Decision{Reason: ReasonNoRuleSet}, fmt.Errorf("%w: %s", ErrNoRuleSet, printable.Quote(id))
	case known.Loading(id):
		return Decision{Reason: ReasonNoRuleSet}, fmt.Errorf("%w: %s", ErrRulesLoading, printable.Quote(id))
	}
	return e.noRuleSetDecision(), nil
}

func (e *Engine) noRuleSetDecision() Decision {
	return Decision{Allowed: e.allowMissing, Reason: ReasonNoRuleSet}
}

func (e *Engine) noRuleDecision() Decision {
	return Decision{Allowed: e.allowMissing, Reason: ReasonNoRule}
}

// unlimited returns the decision for a request that no enforced rule limits.
func (e *Engine) unlimited(exemptedBy string) Decision {
	if exemptedBy != "" {
		return Decision{Allowed: true, Reason: ReasonExempt, RuleID: exemptedBy}
	}
	return e.noRuleDecision()
}

// callAmend calls the function of [WithAmend]. If it panics, only this request fails.
func (e *Engine) callAmend(ctx context.Context, req *Request) (err error) {
	defer recoverHook(&err)
	if err := e.amend(ctx, req); err != nil {
		return fmt.Errorf("%w: %w", ErrHook, err)
	}
	return nil
}

func recoverHook(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v", ErrHook, p)
	}
}
