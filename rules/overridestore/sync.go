package overridestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// copyState is what the copy as a whole belongs to, in a file of its own.
type copyState struct {
	Record rules.OverrideRecord `json:"record"`
	Fleet  string               `json:"fleet,omitempty"`
	At     time.Time            `json:"at"` // when the shared data last had this record, by its clock
}

const (
	stateFile = "overrides.json"
	maxState  = 1 << 10
	// stateEvery is how often the time in the state is written.
	stateEvery = 10 * time.Minute
)

func readState(folder string) (state copyState, err error) {
	if folder == "" {
		return state, nil
	}
	path := filepath.Join(folder, stateFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	var text []byte
	if err == nil && info.Size() <= maxState {
		text, err = os.ReadFile(path) //nolint:gosec // the folder is configured
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return copyState{}, fmt.Errorf("%w: %s: %w", errDamaged, path, err)
	}
	return state, nil
}

// saveState notes that the copy belongs to the shared data.
func (s *Store) saveState(found *rules.OverrideState) error {
	next := copyState{Record: found.Record, Fleet: found.Fleet, At: found.Now}
	if next.Record == s.own.Record && next.Fleet == s.own.Fleet && next.At.Sub(s.own.At).Abs() < stateEvery {
		return nil
	}
	if s.config.Folder != "" {
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		path := filepath.Join(s.config.Folder, stateFile)
		temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
		if err = os.WriteFile(temporary, text, 0o600); err == nil {
			err = os.Rename(temporary, path)
		}
		if err != nil {
			return err
		}
	}
	s.own = next
	return nil
}

// Sync compares the copy with the shared data now: it restores what that has lost, and copies what is
// new. Open and its background task call it.
func (s *Store) Sync(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync(ctx)
}

func (s *Store) sync(ctx context.Context) error {
	defer s.report()
	state, err := s.config.Shared.OverrideState(ctx, s.waiting.names())
	if err == nil {
		state.Record, err = s.restore(ctx, &state)
	}
	if err != nil {
		return err
	}
	s.current = state.Record
	if s.foreign == nil {
		s.note(s.follow(ctx, &state))
	}
	s.offline.Store(nil)
	s.look(ctx, &state)
	return nil
}

// restore brings what is lost back, and returns the record of the shared data.
func (s *Store) restore(ctx context.Context, found *rules.OverrideState) (record rules.OverrideRecord, err error) {
	none, own := rules.OverrideRecord{}, s.own.Record
	record = found.Record
	switch {
	case record == none && own == none && len(found.Revisions) == 0:
		return record, nil // there are no overrides
	case record == none && s.foreign != nil: // this process has seen that it is another fleet
		return record, nil //nolint:nilerr // health names it
	case record == none && own != none && found.Fleet != "" && found.Fleet != s.own.Fleet && found.Since.Before(s.own.At):
		s.refuse(fmt.Errorf("the copy of overrides in %s is that of another fleet: it is not restored. "+
			"Remove it, or correct redis.uri and redis.prefix", s.config.Folder))
		return record, nil
	case record == none:
		if record, err = s.config.Shared.BeginRestore(ctx, newRecord(own.ID)); err != nil {
			return record, err
		}
	}
	if own != none && own.ID != record.ID {
		s.refuse(fmt.Errorf("the copy of overrides in %s is that of another fleet: it is not used, and this server has no copy. "+
			"Remove it, or correct redis.uri and redis.prefix", s.config.Folder))
		return record, nil
	}
	s.foreign = nil
	if own == none { // files without a state may be of another fleet: they are written again
		for _, c := range s.copies {
			c.revision = 0
		}
	}
	if own != none && own != record {
		for _, c := range s.copies {
			if err := s.merge(ctx, record, c, found.Restored[c.ruleSet]); err != nil {
				return record, err
			}
		}
	}
	found.Record = record
	if err := s.saveState(found); err != nil {
		s.note(err)
	}
	return record, nil
}

// merge merges the copy of a rule set into the shared data, unless one at its revision was.
func (s *Store) merge(ctx context.Context, record rules.OverrideRecord, c *ruleSetCopy, restored int64) error {
	if c.path == "" || c.revision <= restored {
		return nil
	}
	part := rules.OverrideCopy{RuleSet: c.ruleSet, Revision: c.revision, Forgotten: c.forgotten, First: true}
	n := 0
	err := c.read(func(batch []rules.Override) error {
		part.Overrides = batch
		n += len(batch)
		err := s.config.Shared.RestoreOverrides(ctx, record, &part)
		part.First = false
		return err
	})
	if errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) {
		s.damaged = err
		return nil
	}
	if err == nil {
		part.Overrides, part.Last = nil, true
		err = s.config.Shared.RestoreOverrides(ctx, record, &part)
	}
	if err != nil {
		return err
	}
	if s.alone {
		return nil // it starts again
	}
	s.restored, s.restoredAt = s.restored+n, time.Now()
	s.config.Logger.Warn("the shared overrides were lost: merged the copy on disk",
		"ruleSet", c.ruleSet, "changes", n, "revision", c.revision)
	return nil
}

// follow copies what is new.
func (s *Store) follow(ctx context.Context, found *rules.OverrideState) error {
	var wrong []error
	for id := range found.Revisions {
		if s.copies[id] == nil {
			s.copies[id] = newCopy(s.config.Folder, id)
		}
		// Also what was restored a moment ago.
		if err := s.followRuleSet(ctx, s.copies[id], found.Revisions[id]); err != nil {
			wrong = append(wrong, fmt.Errorf("rule set %s: %w", id, err))
		}
	}
	return errors.Join(wrong...)
}

func (s *Store) followRuleSet(ctx context.Context, c *ruleSetCopy, revision int64) error {
	if c.revision == revision {
		return nil
	}
	if c.revision == 0 || c.long() {
		return s.copyWhole(ctx, c)
	}
	for {
		page, err := s.config.Shared.OverrideChanges(ctx, c.ruleSet, c.revision, rules.MaxPage)
		switch {
		case errors.Is(err, rules.ErrOverridesLost):
			return s.copyWhole(ctx, c)
		case err != nil:
			return err
		case page.Revision <= c.revision:
			return nil
		}
		if err := c.append(page.Overrides, page.Revision); err != nil {
			c.revision = 0 // the file may have a part of it
			return err
		}
	}
}

// copyWhole copies all overrides of a rule set, and then what changed meanwhile.
func (s *Store) copyWhole(ctx context.Context, c *ruleSetCopy) error {
	revisions, err := s.config.Shared.OverrideRevisions(ctx, []string{c.ruleSet})
	revision := revisions[c.ruleSet]
	if err != nil || revision < 1 {
		return err
	}
	err = c.replace(revision, func(yield func([]rules.Override) error) error {
		for after, more := "", true; more; {
			page, err := s.config.Shared.ListOverrides(ctx, c.ruleSet, after, rules.MaxPage)
			if err == nil {
				err = yield(page.Overrides)
			}
			if err != nil {
				return err
			}
			after, more = page.Next, page.Next != ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	revisions, err = s.config.Shared.OverrideRevisions(ctx, []string{c.ruleSet})
	if err != nil || revisions[c.ruleSet] == c.revision {
		return err
	}
	page, err := s.config.Shared.OverrideChanges(ctx, c.ruleSet, c.revision, rules.MaxPage)
	if err != nil {
		return err
	}
	return c.append(page.Overrides, page.Revision)
}

// refuse records that the copy is not that of this fleet.
func (s *Store) refuse(err error) {
	if s.foreign == nil {
		s.config.Logger.Error("overrides are not restored", "error", err)
	}
	s.foreign = err
}

// note records why the copy could not be written, or that it was.
func (s *Store) note(err error) {
	if err != nil && (s.unsaved == nil || s.unsaved.Error() != err.Error()) {
		s.config.Logger.Error("cannot save the copy of overrides: if Redis loses its data, changes are lost", "error", err)
	}
	s.unsaved = err
}
