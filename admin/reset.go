package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Reset names the buckets to reset to full: that of one caller under a rule, by a request
// or by its key, or all buckets of a rule or a rule set.
type Reset struct {
	RuleSet string   `json:"ruleSet,omitempty" doc:"The rule set."`
	Rule    string   `json:"rule,omitempty" doc:"A rule. The default is all rules."`
	All     bool     `json:"all,omitempty" doc:"The buckets of all callers: required if no caller is named."`
	Key     string   `json:"key,omitempty" pattern:"^[0-9a-f]{48}$" doc:"The bucket of one caller under this rule, as explain shows it."`
	Request *Request `json:"request,omitempty" doc:"A request of that caller, instead of its key."`
}

// maxReset bounds the time of a reset.
const maxReset = 10 * time.Second

// Reset implements [Operator].
func (d *Direct) Reset(ctx context.Context, what Reset) error {
	_, err := d.ResetKey(ctx, what)
	return err
}

// ResetKey is Reset, and returns the key of the bucket of a single caller.
func (d *Direct) ResetKey(ctx context.Context, what Reset) (shown string, err error) {
	engine, err := d.currentEngine()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReset)
	defer cancel()
	key, err := what.key(ctx, engine)
	if err != nil {
		return "", d.sourceError(ctx, &fluxgate.Request{RuleSet: what.RuleSet}, err)
	}
	return engine.ShowKey(key), engine.Reset(ctx, key)
}

// ErrReset is wrapped by errors about resets that name no buckets, or contradict themselves.
var ErrReset = errors.New("invalid reset")

// key returns the key that a reset names.
func (r *Reset) key(ctx context.Context, engine *fluxgate.Engine) (store.Key, error) {
	key := store.Key{RuleSet: r.RuleSet, Rule: r.Rule}
	one := r.Key != "" || r.Request != nil
	switch {
	case !rules.ValidID(r.RuleSet):
		return key, fmt.Errorf("%w: name a rule set", ErrReset)
	case r.Rule != "" && !rules.ValidID(r.Rule):
		return key, fmt.Errorf("%w: invalid rule id", ErrReset)
	case r.Key != "" && r.Request != nil, one && r.All:
		return key, fmt.Errorf("%w: name only one of all, a key and a request", ErrReset)
	case !one && !r.All:
		return key, fmt.Errorf("%w: name a caller by a request or a key, or all callers", ErrReset)
	case one && r.Rule == "":
		return key, fmt.Errorf("%w: name the rule whose bucket it is", ErrReset)
	}
	verdict, err := r.verdict(ctx, engine)
	switch {
	case err != nil || r.All:
		return key, err
	case r.Key != "":
		if key, err = engine.ParseKey(r.RuleSet, r.Rule, r.Key); err != nil {
			return key, fmt.Errorf("%w: %w", ErrReset, err)
		}
		return key, nil
	case len(verdict.Missing) > 0:
		// The bucket is shared with other callers.
		return key, fmt.Errorf("%w: the request has no %s, which rule %s counts by; use the key of the bucket instead",
			ErrReset, strings.Join(verdict.Missing, ", "), r.Rule)
	case verdict.Key == store.Key{}:
		return key, fmt.Errorf("%w: rule %s has no buckets", ErrReset, r.Rule)
	}
	return verdict.Key, nil
}

// verdict returns the verdict of the rule on the request. An unknown rule is an error,
// so that a typing mistake is noticed.
func (r *Reset) verdict(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Verdict, error) {
	var req fluxgate.Request
	if r.Request != nil {
		if of := r.Request.RuleSet; of != "" && of != r.RuleSet {
			return fluxgate.Verdict{}, fmt.Errorf("%w: the request names another rule set", ErrReset)
		}
		if err := r.Request.To(&req); err != nil {
			return fluxgate.Verdict{}, fmt.Errorf("%w: %w", ErrReset, err)
		}
	}
	req.RuleSet = r.RuleSet
	_, all, err := engine.Effective(ctx, &req)
	if err != nil || r.Rule == "" {
		return fluxgate.Verdict{}, err
	}
	for i := range all {
		if all[i].Rule.ID == r.Rule {
			return all[i], nil
		}
	}
	return fluxgate.Verdict{}, fmt.Errorf("rule %q of rule set %q: %w", r.Rule, r.RuleSet, fluxgate.ErrNoRule)
}
