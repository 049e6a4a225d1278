package redisrules

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var _ rules.OverrideEditor = (*Source)(nil)

const (
	// longestEntry is longer than the entry of any override, in bytes.
	longestEntry = 64 << 10
	endDigits    = 16 // of a position
)

// ownOverrideKeys are the keys with the overrides of one rule set.
var ownOverrideKeys = []string{"overrides", "override-changes", "override-list", "override-deleted"}

var errOverrideRevision = errors.New("the revision of its overrides cannot be read")

func (s *database) overrideKeys(ruleSet string, names ...string) []string {
	keys := []string{s.key("override-revisions"), s.key("override-forgotten")}
	for _, name := range names {
		keys = append(keys, s.key(name+":"+ruleSet))
	}
	return keys
}

// OverrideRevisions implements [rules.Overrides].
func (s *database) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	found, err := s.fields(ctx, "override-revisions", rules.ValidIDs(ruleSets))
	if err != nil {
		return nil, fmt.Errorf("reading the revisions of the overrides of %d rule sets: %w", len(ruleSets), err)
	}
	revisions := make(map[string]int64, len(found))
	for id, text := range found {
		revision, ok := parseNumber(text)
		if !ok {
			revision = unreadable
		}
		revisions[id] = revision
	}
	return revisions, nil
}

// OverrideChanges implements [rules.Overrides].
func (s *database) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (page rules.OverridePage, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("reading changes of the overrides of rule set %q: %w", ruleSet, err)
		}
	}()
	var found reply
	if rules.ValidID(ruleSet) {
		found, err = s.run(ctx, overrideChangesScript, s.overrideKeys(ruleSet, "overrides", "override-changes"),
			ruleSet, after, rules.PageSize(limit), longestEntry)
		if err != nil {
			return page, err
		}
	}
	forgotten, err := found.revision(1)
	if err == nil {
		page.Revision, err = found.revision(0)
	}
	switch {
	case err != nil:
		return page, damaged(ruleSet, 0, err)
	case after > 0 && after < forgotten || after > page.Revision: // a reader of everything misses no deletion
		return page, rules.ErrOverridesLost
	}
	last := after
	for i := 2; i+2 < len(found); i += 3 {
		id, _ := found.text(i)
		at, wrong := found.revision(i + 1)
		entry, _ := found.text(i + 2)
		o, err := parseEntry(ruleSet, id, entry)
		if err == nil && (wrong != nil || o.Revision != at) {
			err = damagedOverride(ruleSet, id)
		}
		page.Add(id, o, err)
		last = max(last, at)
	}
	if len(page.Overrides)+len(page.Damaged) == rules.PageSize(limit) {
		if page.Revision = last; last == after {
			return page, damaged(ruleSet, 0, errOverrideRevision)
		}
	}
	return page, nil
}

// revision parses an element of a reply. It is 0 if it is missing.
func (r reply) revision(i int) (int64, error) {
	text, there := r.text(i)
	if !there {
		return 0, nil
	}
	revision, ok := parseNumber(text)
	if !ok {
		return 0, errOverrideRevision
	}
	return revision, nil
}

// Override implements [rules.Overrides].
func (s *database) Override(ctx context.Context, ruleSet, id string) (o rules.Override, err error) {
	var found reply
	if rules.ValidID(ruleSet) {
		found, err = s.run(ctx, overrideScript, []string{s.key("overrides:" + ruleSet)}, id)
	}
	if err == nil {
		if entry, there := found.text(0); there {
			o, err = parseEntry(ruleSet, id, entry)
		}
		if err == nil && (o.Revision == 0 || o.Deleted) {
			err = rules.ErrNotFound
		}
	}
	if err != nil {
		return rules.Override{}, fmt.Errorf("reading override %.100q of rule set %q: %w", id, ruleSet, err)
	}
	return o, nil
}

// ListOverrides implements [rules.Overrides].
func (s *database) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (page rules.OverridePage, err error) {
	if !rules.ValidID(ruleSet) {
		return page, ctx.Err()
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	found, err := s.run(ctx, listOverridesScript, []string{s.key("overrides:" + ruleSet), s.key("override-list:" + ruleSet)},
		from, rules.PageSize(limit), longestEntry)
	if err != nil {
		return page, fmt.Errorf("listing the overrides of rule set %q: %w", ruleSet, err)
	}
	for i := 0; i+1 < len(found); i += 2 {
		position, _ := found.text(i)
		entry, _ := found.text(i + 1)
		id := position[min(len(position), endDigits):]
		o, err := parseEntry(ruleSet, id, entry)
		if err == nil && (o.Deleted || o.Position() != position) {
			err = damagedOverride(ruleSet, id)
		}
		page.Add(id, o, err)
		page.Next = position
	}
	if len(found) < 2*rules.PageSize(limit) {
		page.Next = ""
	}
	return page, nil
}

// PutOverrides implements [rules.OverrideEditor].
func (s *Source) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	return s.putOverrides(ctx, ruleSet, changes, []string{s.key("heads")})
}

// putOverrides writes changes. The further keys and arguments are those of the script after the first.
func (s *database) putOverrides(
	ctx context.Context, ruleSet string, changes []rules.Override, keys []string, more ...any,
) (revision int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("changing the overrides of rule set %q: %w", ruleSet, err)
		}
	}()
	if !rules.ValidID(ruleSet) {
		return 0, errors.New("its id is not valid")
	}
	if changes, err = rules.CheckOverrides(ruleSet, changes); err != nil {
		return 0, err
	}
	args := append([]any{ruleSet, rand.Text(), rules.MaxOverrides}, more...)
	bases := make(map[string]int64, len(changes))
	for _, o := range changes {
		id, base, end := o.ID(), o.Revision, o.Position()[:endDigits]
		if o.Deleted {
			end = wasDeleted
		}
		o.Revision, o.At = 0, time.Time{} // the script sets them
		document, err := json.Marshal(o)
		if err != nil {
			return 0, err
		}
		bases[id] = base
		args = append(args, id, max(-1, base), end, document)
	}
	keys = slices.Concat(s.overrideKeys(ruleSet, ownOverrideKeys...), []string{s.key("override-tokens:" + ruleSet)}, keys)
	found, err := s.run(ctx, putOverridesScript, keys, args...)
	if err != nil {
		return 0, err
	}
	result, _ := found.text(0)
	value, _ := found.text(1)
	switch result {
	case "done":
		return found.revision(1)
	case "conflict":
		current, err := found.revision(2)
		if err != nil {
			return 0, damagedOverride(ruleSet, value)
		}
		return 0, &rules.OverrideConflictError{ID: value, Base: max(0, bases[value]), Current: current}
	case "record":
		return 0, rules.ErrOverrideRecord
	case "full":
		return 0, rules.ErrTooManyOverrides
	case "missing":
		return 0, fmt.Errorf("it was deleted: %w", rules.ErrNotFound)
	case "damaged":
		if value == "" {
			return 0, damaged(ruleSet, 0, errOverrideRevision)
		}
		return 0, damagedOverride(ruleSet, value)
	}
	return 0, fmt.Errorf("the script returned %.100q", found)
}

// parseEntry parses an entry that the script has written:
//
//	7 00064f7d2b1c4000 1767225600000000
//	{"id":…}
//
// revision, the end of the override or deleted, and microseconds since 1970. Its error has
// nothing of the entry, which may be an API key that another program wrote.
func parseEntry(ruleSet, id, entry string) (o rules.Override, err error) {
	first, document, _ := strings.Cut(entry, "\n")
	fields := strings.Split(first, " ")
	if len(fields) != 3 || json.Unmarshal([]byte(document), &o) != nil {
		return o, damagedOverride(ruleSet, id)
	}
	revision, isRevision := parseNumber(fields[0])
	at, isMoment := parseNumber(fields[2])
	if !isRevision || !isMoment || o.Deleted != (fields[1] == wasDeleted) || o.RuleSetID != ruleSet || o.ID() != id {
		return o, damagedOverride(ruleSet, id)
	}
	o.Revision, o.At = revision, time.UnixMicro(at).UTC()
	return o, nil
}

func damagedOverride(ruleSet, id string) error {
	return damaged(ruleSet, 0, fmt.Errorf("override %.100q cannot be read: write or delete it again", id))
}
