package fluxgate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var (
	// ErrNoRule is wrapped by errors about a rule that is not in the rule set.
	ErrNoRule = errors.New("there is no such rule")
	// ErrNoBucket is wrapped by errors about a rule that has no bucket for the
	// request.
	ErrNoBucket = errors.New("there is no bucket")
)

// Bucket is the state of one caller's bucket under one rule.
type Bucket struct {
	// Rule must not be changed.
	Rule *rules.Rule
	// Key names the bucket set. [Engine.Reset] resets it to full.
	Key store.Key
	// Status is OK, Rejected for a bucket in debt, or Unavailable if the store
	// could not decide.
	Status store.Status
	// Source is where the answer came from.
	Source store.Source
	// Bands has one entry per limit. It is empty if the store could not decide.
	Bands []BandStatus
	// Time is the store's clock when it answered.
	Time time.Time
}

// Buckets returns the buckets of a caller under the named rules, in that order,
// whether they match the request or not. If no rule is named, it uses all rules
// that apply and have a bucket for the request. It reads the store, not the
// fallback. It reads at most MaxMatches buckets.
func (e *Engine) Buckets(ctx context.Context, req *Request, rules ...string) ([]Bucket, error) {
	asked, set, err := e.amendedCopy(ctx, req)
	if err != nil {
		return nil, err
	}
	chosen, err := e.choose(set, asked, rules)
	if err != nil {
		return nil, err
	}
	v := newEvaluation(len(chosen))
	v.peek = true
	for _, r := range chosen {
		key, err := e.keyOf(r, asked)
		switch {
		case err != nil:
			return nil, err
		case key != (store.Key{}):
			r = e.overridden(r, key.ID, asked)
			v.rules = append(v.rules, appliedRule{keyedRule: r})
			v.demands = append(v.demands, store.Demand{Key: key, Bands: r.bandsNow(e.store), Shadow: r.shadow})
		case len(rules) > 0:
			_, missing := e.keyer.identify(r.compiledRule, asked)
			return nil, noBucket(r.Rule, "rejects a request without "+strings.Join(missing, ", "))
		}
	}
	if len(v.demands) == 0 {
		return nil, nil
	}
	if err := e.store.Peek(ctx, v.demands, &v.outcome); err != nil {
		return nil, fmt.Errorf("reading buckets from the store: %w", err)
	}
	return v.buckets(), nil
}

// choose returns the enabled limiting rules: those that are named, or if none
// is named those that apply.
func (e *Engine) choose(set rulesAt, req *Request, names []string) ([]*keyedRule, error) {
	var chosen []*keyedRule
	rules := set.keyedBy(e.salt)
	if len(names) == 0 {
		applying := set.match(req, nil).Rules
		if len(applying) > store.MaxMatches {
			return nil, ErrTooManyRules
		}
		for _, i := range applying {
			if r := &rules[i]; r.Limits() {
				chosen = append(chosen, r)
			}
		}
		return chosen, nil
	}
	for _, name := range names {
		i, err := set.find(name)
		if err != nil {
			return nil, err
		}
		r := &rules[i]
		if slices.Contains(chosen, r) {
			continue
		}
		if chosen = append(chosen, r); len(chosen) > store.MaxMatches {
			return nil, fmt.Errorf("%w: the buckets of more than %d rules at once", store.ErrDemand, store.MaxMatches)
		}
	}
	return chosen, nil
}

// find returns the place of the enabled limiting rule with this id.
func (s rulesAt) find(id string) (int, error) {
	if i, ok := s.byID[id]; ok {
		switch r := &s.active[i]; {
		case s.ended(r.Rule):
			return 0, noBucket(r.Rule, "has ended: its until is "+r.Until.Format(time.RFC3339))
		case !r.Limits():
			return 0, noBucket(r.Rule, fmt.Sprintf("does not limit: its action is %s", r.Action))
		}
		return i, nil
	}
	if r, ok := s.Rule(id); ok {
		return 0, noBucket(&r, "is disabled")
	}
	return 0, fmt.Errorf("%w: %s in rule set %s", ErrNoRule, printable.Quote(id), printable.Quote(s.ID()))
}

func noBucket(r *rules.Rule, why string) error {
	return fmt.Errorf("%w: rule %s %s", ErrNoBucket, printable.Quote(r.ID), why)
}

// buckets returns the results of a store, one for each demand.
func (v *evaluation) buckets() []Bucket {
	buckets := make([]Bucket, len(v.demands))
	for i := range buckets {
		result := &v.outcome.Results[i]
		buckets[i] = Bucket{Rule: v.rules[i].Rule, Key: v.demands[i].Key, Status: result.Status, Source: result.Source}
		if result.Status == store.Unavailable {
			continue
		}
		buckets[i].Time = time.UnixMicro(result.Now)
		for j := range result.Bands {
			buckets[i].Bands = append(buckets[i].Bands, v.band(i, j))
		}
	}
	return buckets
}

// Reset resets buckets to full, in the store and in the fallback: the bucket of one
// caller, all buckets of a rule if the key has no ID, or all of a rule set if it has
// no Rule. If the store or the fallback fails, the other is still reset, and Reset
// can be called again.
func (e *Engine) Reset(ctx context.Context, what store.Key) error {
	if what.RuleSet == "" || what.Rule == "" && what.ID != (store.KeyID{}) {
		return errors.New("resetting buckets: a key names a rule set, and a rule if it names a bucket")
	}
	reset := store.Reset{Key: what, Exists: func(rule string) bool {
		set := e.rules.RuleSet(ctx, what.RuleSet)
		if set == nil {
			return true // that is not known
		}
		_, ok := set.Rule(rule)
		return ok
	}}
	defer e.warnings.Reset()
	_, err := e.decider.Reset(ctx, reset)
	return err
}

// ErrKey is wrapped by errors of [Engine.ParseKey].
var ErrKey = errors.New("not the key of a bucket")

// sealLength is how many bytes of a shown key bind it to its rule.
const sealLength = 8

// ShownKeyLength is the number of hexadecimal digits of a shown key.
const ShownKeyLength = 2 * (len(store.KeyID{}) + sealLength)

// ShowKey returns the key of one bucket as text that [Engine.ParseKey] reads:
// its id, and a seal that only the store's salt can produce. It is empty for a
// key that names no bucket.
func (e *Engine) ShowKey(k store.Key) string {
	if k.ID == (store.KeyID{}) {
		return ""
	}
	return hex.EncodeToString(append(k.ID[:], e.seal(k)...))
}

// ParseKey reads a key that [Engine.ShowKey] has written for a rule of a rule
// set. For the key of a bucket of another rule the error wraps [ErrKey]: the id
// alone would reach buckets of any rule.
func (e *Engine) ParseKey(ruleSet, rule, shown string) (store.Key, error) {
	k := store.Key{RuleSet: ruleSet, Rule: rule}
	raw, err := hex.DecodeString(shown)
	if err == nil && len(shown) == ShownKeyLength {
		k.ID = store.KeyID(raw[:len(k.ID)])
		if subtle.ConstantTimeCompare(raw[len(k.ID):], e.seal(k)) == 1 {
			return k, nil
		}
	}
	return store.Key{}, fmt.Errorf("%w of rule %s in rule set %s", ErrKey, printable.Quote(rule), printable.Quote(ruleSet))
}

// seal binds the id of a bucket to its rule.
func (e *Engine) seal(k store.Key) []byte {
	prefix := newKeyPrefix(e.salt, k.RuleSet, k.Rule)
	b := append([]byte("fluxgate shown key 1"), prefix[:]...)
	sum := sha256.Sum256(append(b, k.ID[:]...))
	return sum[:sealLength]
}
