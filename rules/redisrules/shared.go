package redisrules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
)

// Overrides are overrides in Redis whose rules are not, but in files, for example. They are kept
// under the same keys as those of a [Source].
type Overrides struct{ database }

var _ rules.SharedOverrides = (*Overrides)(nil)

// NewOverrides returns overrides without rules. It uses the client as [New] does. The history in
// the config is not used.
func NewOverrides(client redis.UniversalClient, config Config) (*Overrides, error) {
	db, err := open(client, config)
	if err != nil {
		return nil, fmt.Errorf("overrides in Redis: %w", err)
	}
	return &Overrides{db}, nil
}

// PutSharedOverrides implements [rules.SharedOverrides].
func (s *Overrides) PutSharedOverrides(
	ctx context.Context, record, next rules.OverrideRecord, ruleSet string, changes []rules.Override,
) (int64, error) {
	// Nothing deletes the rule sets: no head says so.
	return s.putOverrides(ctx, ruleSet, changes, []string{s.key("override-heads"), s.key("override-record")},
		record.ID, record.Epoch, next.ID, next.Epoch)
}

// OverrideState implements [rules.SharedOverrides].
func (s *Overrides) OverrideState(ctx context.Context, waiting rules.WaitingRules) (state rules.OverrideState, err error) {
	args := []any{len(waiting.Missing)}
	for _, names := range [][]string{waiting.Missing, waiting.Back} {
		for _, name := range names {
			args = append(args, name)
		}
	}
	keys := []string{s.key("override-record"), s.key("override-revisions"), s.key("override-restored"), s.key("override-waiting")}
	found, err := s.run(ctx, overrideStateScript, keys, args...)
	if err == nil && len(found) != 5 {
		err = fmt.Errorf("a reply of %d parts", len(found))
	}
	if err == nil {
		state.Fleet, state.Since, err = s.fleet(ctx)
	}
	if err != nil {
		return state, fmt.Errorf("reading the state of overrides: %w", err)
	}
	record := found.hash(1)
	state.Record = rules.OverrideRecord{ID: record["id"], Epoch: record["epoch"]}
	state.Revisions, state.Restored, state.Waiting = map[string]int64{}, map[string]int64{}, map[string]time.Time{}
	text, _ := found.text(0)
	now, _ := parseNumber(text)
	state.Now = time.UnixMicro(now).UTC()
	for name, text := range found.hash(2) {
		if revision, ok := parseNumber(text); ok {
			state.Revisions[name] = revision
		}
	}
	for name, text := range found.hash(3) {
		if revision, ok := parseNumber(text); ok {
			state.Restored[name] = revision
		}
	}
	for name, text := range found.hash(4) {
		if since, ok := parseNumber(text); ok {
			state.Waiting[name] = time.UnixMicro(since).UTC()
		}
	}
	return state, nil
}

// fleet identifies the fleet whose buckets are under the same prefix: see the fleet state of
// redisstore. It does not show the salt.
func (s *Overrides) fleet(ctx context.Context) (id string, since time.Time, err error) {
	found, err := within(ctx, s.config, func(ctx context.Context) (reply, error) {
		return s.client.HMGet(ctx, s.config.Prefix+":fleet", "salt", "since").Result()
	})
	if err != nil {
		return "", since, err
	}
	if salt, there := found.text(0); there {
		sum := sha256.Sum256([]byte("overrides of " + salt))
		id = hex.EncodeToString(sum[:8])
	}
	if text, there := found.text(1); there {
		micros, _ := strconv.ParseInt(text, 10, 64)
		since = time.UnixMicro(micros).UTC()
	}
	return id, since, nil
}

// hash returns the fields of a hash in an element.
func (r reply) hash(i int) map[string]string {
	pairs, _ := r[i].([]any)
	fields := make(map[string]string, len(pairs)/2)
	for j := 0; j+1 < len(pairs); j += 2 {
		fields[fmt.Sprint(pairs[j])] = fmt.Sprint(pairs[j+1])
	}
	return fields
}

// BeginRestore implements [rules.SharedOverrides].
func (s *Overrides) BeginRestore(ctx context.Context, record rules.OverrideRecord) (current rules.OverrideRecord, err error) {
	found, err := s.run(ctx, beginScript, []string{s.key("override-record")}, record.ID, record.Epoch)
	if err != nil {
		return current, fmt.Errorf("restoring overrides: %w", err)
	}
	current.ID, _ = found.text(0)
	current.Epoch, _ = found.text(1)
	return current, nil
}

// RestoreOverrides implements [rules.SharedOverrides].
func (s *Overrides) RestoreOverrides(ctx context.Context, record rules.OverrideRecord, part *rules.OverrideCopy) error {
	which := ""
	switch {
	case part.First && part.Last:
		which = "both"
	case part.First:
		which = "first"
	case part.Last:
		which = "last"
	}
	args := []any{part.RuleSet, record.ID, record.Epoch, part.Revision, part.Forgotten, which}
	for _, o := range part.Overrides {
		id, revision, end, at := o.ID(), o.Revision, o.Position()[:endDigits], o.At
		if o.Deleted {
			end = wasDeleted
		}
		o.Revision, o.At = 0, time.Time{}
		document, err := json.Marshal(o)
		if err != nil {
			return err
		}
		args = append(args, id, revision, end, max(1, at.UnixMicro()), document)
	}
	keys := append(s.overrideKeys(part.RuleSet, ownOverrideKeys...), s.key("override-restored"), s.key("override-record"))
	found, err := s.run(ctx, restoreScript, keys, args...)
	if err == nil {
		switch result, _ := found.text(0); result {
		case "done":
		case "record":
			err = rules.ErrOverrideRecord
		default:
			err = fmt.Errorf("the script returned %.100q", found)
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the overrides of rule set %q: %w", part.RuleSet, err)
	}
	return nil
}
