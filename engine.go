package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

var (
	// ErrCost is wrapped by errors about costs, estimates and usages that cannot be.
	ErrCost = errors.New("invalid cost")
	// ErrTooManyRules is returned by [Engine.Buckets] for a request to which
	// more than MaxMatches rules apply. Such a request is refused.
	ErrTooManyRules = fmt.Errorf("more than %d rules apply to one request", store.MaxMatches)
	// ErrHook is wrapped by errors about user functions, see [WithIdentity] and
	// [WithAmend], that failed or panicked.
	ErrHook = errors.New("a user's function failed")
)

// Engine decides requests: rule set → rules that apply → keys → one Take. It
// is safe for use by any number of goroutines.
type Engine struct {
	store store.Store
	rules RuleSets
	keyer keyer
	salt  []byte // of the store

	ruleSetID    string
	allowMissing bool
	// refuseUnknown refuses requests that name a rule set that does not exist.
	refuseUnknown bool
	// refuseAmbiguous refuses paths that routers may read in more than one way.
	refuseAmbiguous bool
	policy          rules.Policy
	onFailure       rules.OnFailure
	fallback        store.Fallback
	share           float64 // 0 follows the number of gateways
	carryover       carryover
	maxWait         time.Duration
	waits           waitSlots
	observer        Observer
	amend           func(context.Context, *Request) error
}

// New returns an engine that decides by rule sets and counts in a store. If gateways share
// the store, as they do store/redisstore, the engine counts in its own memory while that is
// unavailable: see [WithFallback] and [WithOnFailure].
func New(buckets store.Store, sets RuleSets, options ...Option) (*Engine, error) {
	if buckets == nil || sets == nil {
		return nil, errors.New("an engine needs a store and rule sets")
	}
	e := &Engine{
		store: buckets, rules: sets, salt: buckets.Salt(),
		allowMissing: true, policy: rules.Reject, onFailure: rules.FailLocal,
	}
	e.keyer.ipv6Bits = 64
	for _, option := range options {
		if err := option(e); err != nil {
			return nil, fmt.Errorf("creating an engine: %w", err)
		}
	}
	if e.fallback == nil && e.store.Gateways() > 0 {
		local, err := memstore.New(memstore.Config{})
		if err != nil {
			return nil, fmt.Errorf("creating an engine: %w", err)
		}
		e.fallback = local
	}
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

// Require returns an error if there is no such rule set. Middleware calls it when it is
// created with a rule set of its own.
func (e *Engine) Require(id string) error {
	if required, ok := e.rules.(interface{ Require(id string) error }); ok {
		return required.Require(id)
	}
	return nil
}

// Check decides a request. If a rule says so it holds the request until its
// tokens are due; if ctx ends before, it gives back what can be given back and
// returns the error of ctx. An error means that there is no decision.
func (e *Engine) Check(ctx context.Context, req *Request) (Decision, error) {
	d, err := e.check(ctx, req)
	if e.observer != nil {
		seen := d // a copy: only an observer makes a decision escape
		e.observer.Decided(ctx, req, &seen, err)
	}
	return d, err
}

func (e *Engine) check(ctx context.Context, req *Request) (Decision, error) {
	set, err := e.ruleSetOf(ctx, req)
	if err != nil {
		return Decision{}, err
	}
	if set == nil {
		return e.noRuleSet(e.ruleSetIDOf(req))
	}
	return e.decide(ctx, req, set)
}

// ruleSetOf amends a request and returns its rule set, or nil.
func (e *Engine) ruleSetOf(ctx context.Context, req *Request) (*Compiled, error) {
	if err := e.prepare(ctx, req); err != nil {
		return nil, err
	}
	return e.rules.RuleSet(ctx, e.ruleSetIDOf(req)), nil
}

// prepare amends a request and checks its costs.
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

// decide decides a request by one rule set.
func (e *Engine) decide(ctx context.Context, req *Request, set *Compiled) (Decision, error) {
	var p part
	var space [store.MaxMatches + 1]int32
	found := e.applying(req, set, &p, space[:0])
	if p.decided {
		return p.decision, nil
	}
	v := newEvaluation(len(found))
	v.peek = req.Peek
	if err := e.demand(ctx, req, set, found, v, &p); err != nil || p.decided {
		return p.decision, err
	}
	return e.take(ctx, v, p.applyResult)
}

// part is what one request adds to an evaluation.
type part struct {
	applyResult
	// decided is set if the decision needs no store: no rule limits, or one denies.
	decided  bool
	decision Decision
	// alternative is set if an alternative rule denies.
	alternative bool
	replaced    []string // rules that do not apply
	from, to    int      // of its demands
}

func (p *part) decide(d Decision) { p.decided, p.decision = true, d }

// applying finds the rules that apply to a request, or decides it: one denies, or none
// limits. A path with several readings is denied if one of them is, and exempt only if all
// are: a caller must not evade a rule by a spelling that the router reads differently.
func (e *Engine) applying(req *Request, set *Compiled, p *part, space []int32) []int32 {
	if match.Refused(req.Path) || e.refuseAmbiguous && match.Ambiguous(req.Path) {
		p.decide(Decision{Reason: ReasonBadPath})
		return nil
	}
	asked := req.matching()
	found := set.matcher.Match(&asked, space)
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
	var last *compiledRule // the last rule that allows
	if found.Ends {
		for _, i := range found.Rules {
			switch r := &set.active[i]; {
			case r.shadow || r.Limits():
			case r.Action == rules.ActionDeny:
				p.decide(Decision{Reason: ReasonDenied, RuleID: r.ID})
				p.alternative = r.Mode == rules.ModeAlternative
				return nil
			default:
				last = r
			}
		}
	}
	if !found.Enforced && !e.allowMissing || len(found.Rules) == 0 {
		p.decide(e.noRule())
		return nil
	}
	if found.Final {
		p.exemptedBy = last.ID
	}
	return found.Rules
}

// demand adds what a request demands of the rules that apply to an evaluation.
func (e *Engine) demand(
	ctx context.Context, req *Request, set *Compiled, applying []int32, v *evaluation, p *part,
) error {
	list := set.keyedBy(e.salt)
	p.from = len(v.demands)
	for _, i := range applying {
		if r := &list[i]; r.Limits() {
			if err := e.demandOf(ctx, r, req, v, p); err != nil || p.decided {
				return err
			}
		}
	}
	if p.to = len(v.demands); p.to == p.from {
		p.decide(e.unlimited(p.exemptedBy))
	}
	return nil
}

// demandOf adds what a request demands of one rule.
func (e *Engine) demandOf(ctx context.Context, r *keyedRule, req *Request, v *evaluation, p *part) error {
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
	demand := r.demand(key)
	var price *Price
	demand.Cost, price = r.costOf(req, demand.Bands)
	if r.slots {
		demand.Holder = newHolder()
	}
	if e.maxWait > 0 && e.policyOf(r) == rules.WaitForRefill && !r.Overdraft && !r.CountRefused {
		demand.MaxWait = e.patience(ctx)
		p.waits = p.waits || !r.shadow
	}
	p.enforced = p.enforced || !r.shadow
	v.rules = append(v.rules, appliedRule{r, price})
	v.demands = append(v.demands, demand)
	return nil
}

// demand is what a request demands of the rule, but for its cost.
func (r *keyedRule) demand(key store.KeyID) store.Demand {
	return store.Demand{
		Key:         store.Key{RuleSet: r.RuleSetID, Rule: r.ID, ID: key},
		Bands:       r.bandsNow(),
		Shadow:      r.shadow,
		Overdraft:   r.Overdraft,
		Alternative: r.Mode == rules.ModeAlternative,
		Strict:      r.Consistency == rules.ConsistencyStrict,
		Leased:      r.Consistency == rules.ConsistencyLeased,
	}
}

// applyResult is the combined result of the rules that apply.
type applyResult struct {
	enforced   bool   // an enforced rule limits
	waits      bool   // an enforced rule would hold the request
	exemptedBy string // the rule that exempts the request, if one does
}

// take calls the store, applies the failure modes of undecided rules, and holds
// the request.
func (e *Engine) take(ctx context.Context, v *evaluation, a applyResult) (Decision, error) {
	if a.waits && e.waits.enter(v) {
		defer e.waits.leave(v)
	}
	held, err := e.decideInStore(ctx, v)
	if err != nil {
		if ctx.Err() != nil {
			return Decision{}, ctx.Err()
		}
		if errors.Is(err, store.ErrDemand) {
			return Decision{}, err
		}
		e.storeFailed(ctx, err)
		v.outcome.Prepare(v.demands)
		for i := range v.outcome.Results {
			v.outcome.Results[i].Status = store.Unavailable
		}
		v.outcome.Decide(v.demands)
	} else {
		e.noteLevels(v)
	}
	failed, degraded := e.applyFailureModes(ctx, v, held)
	if failed != nil && ctx.Err() != nil {
		return Decision{}, ctx.Err()
	}
	d := v.decision(failed)
	if d.Allowed && !a.enforced {
		d = e.unlimited(a.exemptedBy)
		d.evaluation = v
	}
	d.Degraded = degraded
	if d.Allowed && d.Wait > 0 && !v.peek {
		return e.hold(ctx, d)
	}
	return d, nil
}

// patience is how long a request can be held: not beyond its deadline.
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

// noRuleSet decides a request whose rule set is not loaded. See [WithKnownRuleSets] for
// the error.
func (e *Engine) noRuleSet(id string) (Decision, error) {
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
	return e.noRules(), nil
}

func (e *Engine) noRules() Decision {
	return Decision{Allowed: e.allowMissing, Reason: ReasonNoRuleSet}
}

func (e *Engine) noRule() Decision {
	return Decision{Allowed: e.allowMissing, Reason: ReasonNoRule}
}

// unlimited is the decision if no enforced rule limits.
func (e *Engine) unlimited(exemptedBy string) Decision {
	if exemptedBy != "" {
		return Decision{Allowed: true, Reason: ReasonExempt, RuleID: exemptedBy}
	}
	return e.noRule()
}

// callAmend turns a panic of the user's function into that request's error.
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
