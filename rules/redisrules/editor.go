package redisrules

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate/rules"
)

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	own, document, err := rules.Encode(set)
	if err != nil {
		return 0, fmt.Errorf("putting a rule set: %w", err)
	}
	return s.commit(ctx, wasPut, own.ID(), document, change)
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	return s.commit(ctx, wasDeleted, id, nil, change)
}

// commit makes a document the next revision; an empty one is a deletion.
func (s *Source) commit(ctx context.Context, what, id string, document []byte, change rules.Change) (revision int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("changing rule set %q: %w", id, err)
		}
	}()
	if err := change.Check(); err != nil {
		return 0, err
	}
	if !rules.ValidID(id) { // a deletion of a rule set that cannot exist
		return 0, cmp.Or(change.CheckHead(id, rules.Head{}), rules.ErrNotFound)
	}
	keys := []string{
		s.key("heads"), s.key("names"), s.key("current"),
		s.key("history:" + id), s.key("documents:" + id), s.key("changes:" + id), s.key("bytes"),
	}
	if what == wasDeleted || change.Base == 0 {
		keys = append(keys, s.overrideKeys(id, ownOverrideKeys...)...)
	}
	found, err := s.run(ctx, commitScript, keys, id, change.Base, rand.Text(), s.config.History, what,
		change.Author+"\n"+change.Comment, document, s.config.HistoryBytes)
	if err != nil {
		return 0, err
	}
	result, _ := found.text(0)
	value, _ := found.text(1)
	number, err := strconv.ParseInt(value, 10, 64)
	switch {
	case result == "done" && err == nil:
		return number, nil
	case result == "conflict" && err == nil:
		return 0, &rules.ConflictError{RuleSetID: id, Base: change.Base, Current: number}
	case result == "missing":
		return 0, rules.ErrNotFound
	case result == "damaged":
		return 0, damaged(id, 0, errHead)
	}
	return 0, fmt.Errorf("the script returned %.100q", found)
}

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	from := "-"
	if after != "" {
		// Longer than any id, so that truncating does not change the result.
		const longest = 100
		from = "(" + after[:min(len(after), longest)]
	}
	found, err := s.run(ctx, listScript, []string{s.key("names"), s.key("current")}, from, rules.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("listing rule sets: %w", err)
	}
	entries := make([]rules.Entry, 0, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		id, _ := found.text(i)
		line, _ := found.text(i + 1)
		entry, err := parseLine(id, line)
		if err == nil && entry.Deleted {
			err = errLine
		}
		if err != nil {
			return nil, fmt.Errorf("listing rule sets: %w", damaged(id, 0, err))
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// History implements [rules.Editor].
func (s *Source) History(ctx context.Context, id string, before int64, limit int) (entries []rules.Entry, err error) {
	if !rules.ValidID(id) {
		return nil, nil
	}
	found, err := s.run(ctx, historyScript, []string{s.key("heads"), s.key("history:" + id)}, id, before, rules.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("reading the history of rule set %q: %w", id, err)
	}
	text, ok := found.text(0)
	if !ok {
		return nil, nil
	}
	head, err := parseHead(text)
	if err != nil {
		return nil, damaged(id, 0, err)
	}
	revision := head.Revision
	if before != 0 {
		revision = min(revision, before-1)
	}
	for i := range found[1:] {
		line, _ := found.text(i + 1)
		entry, err := parseLine(id, line)
		if err == nil && entry.Revision != revision {
			err = errLine
		}
		if err != nil {
			return nil, damaged(id, revision, err)
		}
		entries = append(entries, entry)
		revision--
	}
	return entries, nil
}
