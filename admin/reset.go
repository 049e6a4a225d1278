package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Reset says which buckets are made full: one caller's under a rule, who is
// named by a request or by the key of the bucket, or all of a rule or of a rule
// set, which must be said.
type Reset struct {
	RuleSet string   `json:"ruleSet,omitempty" doc:"The rule set."`
	Rule    string   `json:"rule,omitempty" doc:"A rule. Left out, all rules."`
	All     bool     `json:"all,omitempty" doc:"The buckets of all callers: needed where none is named."`
	Key     string   `json:"key,omitempty" pattern:"^[0-9a-f]{48}$" doc:"The bucket of one caller under this rule, as explain and peek show it."`
	Request *Request `json:"request,omitempty" doc:"A request of that caller, in the place of its key."`
}

// maxReset bounds a reset: a store that is away is not waited for.
const maxReset = 10 * time.Second

// Reset implements [Operator].
func (d *Direct) Reset(ctx context.Context, what Reset) error {
	_, err := d.ResetKey(ctx, what)
	return err
}

// ResetKey is Reset, and returns the key of the bucket if it was one caller's.
func (d *Direct) ResetKey(ctx context.Context, what Reset) (shown string, err error) {
	engine, err := d.decides()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReset)
	defer cancel()
	key, err := what.key(ctx, engine)
	if err != nil {
		return "", d.truth(ctx, &fluxgate.Request{RuleSet: what.RuleSet}, err)
	}
	return engine.ShowKey(key), engine.Reset(ctx, key)
}

// ErrReset is wrapped by errors about resets that say too little or too much.
var ErrReset = errors.New("which buckets to reset is not clear")

// key is what a reset names.
func (r *Reset) key(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Key, error) {
	key := fluxgate.Key{RuleSet: r.RuleSet, Rule: r.Rule}
	one := r.Key != "" || r.Request != nil
	switch {
	case !fluxgate.ValidID(r.RuleSet):
		return key, fmt.Errorf("%w: name a rule set", ErrReset)
	case r.Rule != "" && !fluxgate.ValidID(r.Rule):
		return key, fmt.Errorf("%w: that is not the id of a rule", ErrReset)
	case r.Key != "" && r.Request != nil, one && r.All:
		return key, fmt.Errorf("%w: name all, a key or a request, and one of them alone", ErrReset)
	case !one && !r.All:
		return key, fmt.Errorf("%w: name a caller by a request or a key, or say that all callers are meant", ErrReset)
	case one && r.Rule == "":
		return key, fmt.Errorf("%w: name the rule whose bucket it is", ErrReset)
	}
	verdict, err := r.verdict(ctx, engine)
	switch {
	case err != nil || r.All:
		return key, err
	case r.Key != "":
		if key, err = engine.ParseKey(r.RuleSet, r.Rule, r.Key); err != nil {
			return key, fmt.Errorf("%w: this is %w", ErrReset, err)
		}
		return key, nil
	case len(verdict.Missing) > 0:
		// Its bucket would be one that it shares with strangers.
		return key, fmt.Errorf("%w: the request does not say %s, which rule %s counts by; the bucket of callers without can be named by its key",
			ErrReset, strings.Join(verdict.Missing, ", "), r.Rule)
	case verdict.Key == fluxgate.Key{}:
		return key, fmt.Errorf("%w: rule %s has no buckets", ErrReset, r.Rule)
	}
	return verdict.Key, nil
}

// verdict is that of the rule on the request. It refuses what does not exist: a
// slip of the pen would reset nothing, and say that it had.
func (r *Reset) verdict(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Verdict, error) {
	var req fluxgate.Request
	if r.Request != nil {
		if of := r.Request.RuleSet; of != "" && of != r.RuleSet {
			return fluxgate.Verdict{}, fmt.Errorf("%w: the request is about another rule set", ErrReset)
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
