package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxRuleResets bounds how many rules of one rule set can have been reset.
	maxRuleResets = 1_000
	// maxResets bounds how many rules and rule sets can: every gateway reads
	// all of them periodically.
	maxResets = 50_000
)

// Reset implements [store.Store]. The reset of a rule or a rule set is announced
// to the other processes, which then read the fleet state.
//
// The last marks of each rule and rule set are kept; a mark must be a valid id.
func (s *Store) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	switch {
	case what.RuleSet == "":
		return false, errors.New("resetting buckets: no rule set is named")
	case what.Mark != "" && !rules.ValidID(what.Mark), what.After != "" && !rules.ValidID(what.After):
		return false, fmt.Errorf("resetting buckets: invalid mark %q after %q", what.Mark, what.After)
	case what.ID == (store.KeyID{}):
		return s.newGeneration(ctx, &what)
	case what.Mark != "":
		return false, errors.New("resetting buckets: a mark is for a rule or a rule set, not for one bucket")
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	err = s.deleteBucket(ctx, s.names.key(&what.Key, s.fleet.generations()))
	return err == nil, s.resetError(err)
}

// deleteBucket deletes a bucket and its holders by one command: a request between two would
// get the answer of a bucket without holders, or lose its slot. Only while their slot moves
// they may be on two nodes.
func (s *Store) deleteBucket(ctx context.Context, name string) error {
	keys, split := []string{name, holdersOf(name)}, false
	_, err := onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) (int64, error) {
		n, err := c.Del(ctx, keys...).Result()
		if split = resultOf(err) == tryAgain; split {
			return 0, nil
		}
		return n, err
	})
	for _, key := range keys {
		if split && err == nil {
			_, err = onMaster(ctx, s.nodes, key, func(ctx context.Context, c commander) (int64, error) { return c.Del(ctx, key).Result() })
		}
	}
	return err
}

// newGeneration gives the buckets of a rule or a rule set other names. If that needs room,
// resets of deleted rules are forgotten.
func (s *Store) newGeneration(ctx context.Context, what *store.Reset) (did bool, err error) {
	err = s.checkRoom(what)
	if err != nil && what.Exists != nil {
		if err := s.forgetDeleted(ctx, what); err != nil {
			return false, err
		}
		err = s.checkRoom(what)
	}
	if err != nil {
		return false, err
	}
	var forget []string
	if what.Rule == "" {
		forget = s.fleet.generations().rulesOf(what.RuleSet) // it is the later reset of all of its rules
	}
	return s.count(ctx, what.RuleSet, resetField(what.RuleSet, what.Rule), what.Mark, what.After, forget)
}

// checkRoom returns an error if too many resets are kept for another one.
func (s *Store) checkRoom(what *store.Reset) error {
	known := s.fleet.generations()
	isNew := known[resetField(what.RuleSet, what.Rule)] == 0
	switch rules := known.rulesOf(what.RuleSet); {
	case isNew && len(known) >= maxResets:
		return fmt.Errorf("resetting buckets: %w: %d rules of all rule sets were reset, which is the maximum; reset whole rule sets",
			store.ErrTooManyResets, len(known))
	case isNew && what.Rule != "" && len(rules) >= maxRuleResets:
		return fmt.Errorf("resetting buckets: %w: %d rules of rule set %q were reset one by one, the maximum: reset the whole rule set",
			store.ErrTooManyResets, len(rules), what.RuleSet)
	}
	return nil
}

// forgetDeleted forgets the resets of rules that do not exist any more.
func (s *Store) forgetDeleted(ctx context.Context, what *store.Reset) error {
	gone := slices.DeleteFunc(s.fleet.generations().rulesOf(what.RuleSet), func(field string) bool {
		_, rule, _ := splitField(field)
		return what.Exists(rule)
	})
	if len(gone) == 0 {
		return nil
	}
	_, err := s.count(ctx, what.RuleSet, forgotField(what.RuleSet), "", "", gone)
	return err
}

// count gives a field of a rule set its next generation, unless the mark was
// used before and after is not the last one, and forgets others.
func (s *Store) count(ctx context.Context, ruleSet, field, mark, after string, forget []string) (did bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	known := s.fleet.generations()
	args := make([]any, 0, 7+2*len(forget))
	args = append(args, field, known[field], known.last(ruleSet), "mark/"+field, mark, after, s.names.resets())
	for _, f := range forget {
		args = append(args, f, "mark/"+f)
	}
	name := s.names.fleet()
	answer, err := onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) ([]int64, error) {
		return c.Eval(ctx, resetScript, []string{name}, args...).Int64Slice()
	})
	if err == nil && len(answer) != 3 {
		err = errAnswer
	}
	if err != nil {
		return false, s.resetError(err)
	}
	if did = answer[1] == 1; !did {
		forget = nil // the gateway that did it has forgotten them
	}
	s.fleet.note(field, answer[0], forget)
	s.fleet.noteAnnounced(answer[2] == 1)
	return did, nil
}

func (s *Store) resetError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("resetting buckets: %w", s.clean(err))
}
