package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate"
)

const (
	// maxRuleResets bounds how many rules of one rule set can have been reset.
	maxRuleResets = 1_000
	// maxResets bounds how many rules and rule sets can: every gateway reads
	// all of them periodically.
	maxResets = 50_000
)

var _ fluxgate.ResetForgetter = (*Store)(nil)

// Reset implements [fluxgate.Store]. The reset of a rule or a rule set is announced
// to the other gateways, which then read the fleet state.
func (s *Store) Reset(ctx context.Context, what fluxgate.Key) error {
	if what.ID != (fluxgate.KeyID{}) && what.RuleSet != "" {
		ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
		defer cancel()
		return s.resetError(s.deleteBucket(ctx, s.names.key(&what, s.fleet.generations())))
	}
	_, err := s.newGeneration(ctx, what, "")
	return err
}

// deleteBucket deletes a bucket and its holders by one command: a request between two would
// get the answer of a bucket without holders, or lose its slot. Only while their slot moves
// they may be on two nodes.
func (s *Store) deleteBucket(ctx context.Context, name string) error {
	keys, split := []string{name, holdersOf(name)}, false
	err := s.nodes.onMaster(ctx, name, func(ctx context.Context, c commander) error {
		err := c.Del(ctx, keys...).Err()
		if split = refusalOf(err) == tryAgain; split {
			return nil
		}
		return err
	})
	for _, key := range keys {
		if split && err == nil {
			err = s.nodes.onMaster(ctx, key, func(ctx context.Context, c commander) error { return c.Del(ctx, key).Err() })
		}
	}
	return err
}

// ResetOnce resets a rule or a rule set like Reset, unless a gateway has done
// so with the same mark before. It reports whether it did. The last marks of
// each rule and rule set are kept; a mark must be a valid id.
func (s *Store) ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if what.ID != (fluxgate.KeyID{}) {
		return false, errors.New("resetting buckets: a mark is for a rule or a rule set, not for one bucket")
	}
	if !fluxgate.ValidID(mark) {
		return false, fmt.Errorf("resetting buckets: invalid mark %q", mark)
	}
	return s.newGeneration(ctx, what, mark)
}

func (s *Store) newGeneration(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if what.RuleSet == "" {
		return false, errors.New("resetting buckets: no rule set is named")
	}
	known := s.fleet.generations()
	rules := known.rulesOf(what.RuleSet)
	field := resetField(what.RuleSet, what.Rule)
	switch {
	case known[field] == 0 && len(known) >= maxResets:
		return false, fmt.Errorf("resetting buckets: %w: %d rules of all rule sets were reset, no more can be; reset whole rule sets", fluxgate.ErrTooManyResets, len(known))
	case what.Rule == "":
		// It is the later reset of all of its rules.
		return s.count(ctx, what.RuleSet, field, mark, rules)
	case known[field] == 0 && len(rules) >= maxRuleResets:
		return false, fmt.Errorf("resetting buckets: %w: %d rules of rule set %q were reset one by one, no more can be; reset the whole rule set",
			fluxgate.ErrTooManyResets, len(rules), what.RuleSet)
	}
	return s.count(ctx, what.RuleSet, field, mark, nil)
}

// ForgetResets implements [fluxgate.ResetForgetter].
func (s *Store) ForgetResets(ctx context.Context, ruleSet string, there func(rule string) bool) error {
	gone := slices.DeleteFunc(s.fleet.generations().rulesOf(ruleSet), func(field string) bool {
		_, rule, _ := splitField(field)
		return there(rule)
	})
	if len(gone) == 0 {
		return nil
	}
	_, err := s.count(ctx, ruleSet, forgotField(ruleSet), "", gone)
	return err
}

// count gives a field of a rule set its next generation, unless the mark was
// used before, and forgets others.
func (s *Store) count(ctx context.Context, ruleSet, field, mark string, forget []string) (did bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	known := s.fleet.generations()
	args := make([]any, 0, 6+2*len(forget))
	args = append(args, field, known[field], known.last(ruleSet), "mark/"+field, mark, s.names.resets())
	for _, f := range forget {
		args = append(args, f, "mark/"+f)
	}
	name := s.names.fleet()
	err = s.nodes.onMaster(ctx, name, func(ctx context.Context, c commander) error {
		answer, err := c.Eval(ctx, resetScript, []string{name}, args...).Int64Slice()
		if err != nil {
			return err
		}
		if len(answer) != 3 {
			return fmt.Errorf("the script answered %d values", len(answer))
		}
		if did = answer[1] == 1; !did {
			forget = nil // the gateway that did it has forgotten them
		}
		s.fleet.note(field, answer[0], forget)
		s.fleet.noteAnnounced(answer[2] == 1)
		return nil
	})
	return did, s.resetError(err)
}

func (s *Store) resetError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("resetting buckets: %w", s.clean(err))
}
