package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate"
)

// maxResets bounds how many rules and rule sets can have been reset.
const maxResets = 10_000

// Reset implements [fluxgate.Store]. Other gateways see the reset of a rule or
// a rule set when they next look at the record.
func (s *Store) Reset(ctx context.Context, what fluxgate.Key) error {
	if what.ID != (fluxgate.KeyID{}) && what.RuleSet != "" {
		name := s.names.key(&what, s.record.generations())
		return s.resetError(s.nodes.onMaster(ctx, name, func(ctx context.Context, c commander) error {
			return c.Del(ctx, name).Err()
		}))
	}
	_, err := s.newGeneration(ctx, what, "")
	return err
}

// ResetOnce resets a rule or a rule set like Reset, unless a gateway has done
// so with the same mark before. It reports whether it did. The last marks of
// each rule and rule set are kept; a mark is spelled like an id.
func (s *Store) ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if what.ID != (fluxgate.KeyID{}) {
		return false, errors.New("resetting buckets: one bucket cannot be reset by a mark")
	}
	if !fluxgate.ValidID(mark) {
		return false, fmt.Errorf("resetting buckets: %q cannot be a mark", mark)
	}
	return s.newGeneration(ctx, what, mark)
}

func (s *Store) newGeneration(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if what.RuleSet == "" {
		return false, errors.New("resetting buckets: no rule set is named")
	}
	field := resetField(what.RuleSet, what.Rule)
	known := s.record.generations()
	if len(known) >= maxResets && known[field] == 0 {
		return false, fmt.Errorf("resetting buckets: more than %d rules have been reset", maxResets)
	}
	name := s.names.fleet()
	var did bool
	err := s.nodes.onMaster(ctx, name, func(ctx context.Context, c commander) error {
		answer, err := c.Eval(ctx, resetScript, []string{name}, field, known[field], "mark/"+field, mark).Int64Slice()
		if err != nil {
			return err
		}
		if len(answer) != 2 {
			return fmt.Errorf("the script answered %d values", len(answer))
		}
		s.record.adopt(map[string]string{field: strconv.FormatInt(answer[0], 10)})
		did = answer[1] == 1
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
