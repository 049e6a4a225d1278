package redisrules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// commit is a change on its way to the script.
type commit struct {
	id       string
	change   rules.Change
	what     string
	document []byte
}

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	if set == nil || !fluxgate.ValidID(set.ID()) {
		return 0, errors.New("putting a rule set: there is none")
	}
	revision, err := s.put(ctx, set, change)
	if err != nil {
		return 0, fmt.Errorf("putting rule set %q: %w", set.ID(), err)
	}
	return revision, nil
}

func (s *Source) put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	_, document, err := rules.Encode(set)
	if err != nil {
		return 0, err
	}
	return s.commit(ctx, &commit{id: set.ID(), change: change, what: wasPut, document: document})
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	revision, err := s.commit(ctx, &commit{id: id, change: change, what: wasDeleted})
	if err != nil {
		return 0, fmt.Errorf("deleting rule set %q: %w", id, err)
	}
	return revision, nil
}

func (s *Source) commit(ctx context.Context, c *commit) (int64, error) {
	if err := c.change.Check(); err != nil {
		return 0, err
	}
	if !fluxgate.ValidID(c.id) { // a deletion of what cannot be there
		if err := c.change.CheckHead(c.id, rules.Head{}); err != nil {
			return 0, err
		}
		return 0, rules.ErrNotFound
	}
	keys := []string{
		s.keys.heads, s.keys.names, s.keys.current, s.keys.history(c.id), s.keys.documents(c.id), s.keys.changes(c.id), s.keys.bytes,
	}
	found, err := s.run(ctx, commitScript, keys,
		c.id, c.change.Base, rand.Text(), s.config.History, c.what,
		c.change.Author+"\n"+c.change.Comment, c.document, s.config.HistoryBytes)
	if err != nil {
		return 0, err
	}
	return c.outcome(found)
}

// outcome reads what the script says.
func (c *commit) outcome(found reply) (int64, error) {
	said, _ := found.text(0)
	value, _ := found.text(1)
	switch said {
	case "done":
		if revision, ok := parseNumber(value); ok {
			return revision, nil
		}
	case "conflict":
		if current, err := strconv.ParseInt(value, 10, 64); err == nil {
			return 0, &rules.ConflictError{RuleSetID: c.id, Base: c.change.Base, Current: current}
		}
	case "missing":
		return 0, rules.ErrNotFound
	case "damaged":
		return 0, damaged(c.id, 0, errHead)
	}
	return 0, errors.New("the answer of Redis cannot be read")
}

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	from := "-"
	if after != "" {
		// No id is as long, so that what is cut off decides nothing.
		const longest = 100
		from = "(" + after[:min(len(after), longest)]
	}
	found, err := s.run(ctx, listScript, []string{s.keys.names, s.keys.current}, from, rules.PageSize(limit))
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
func (s *Source) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	entries, err := s.history(ctx, id, before, rules.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("reading the history of rule set %q: %w", id, err)
	}
	return entries, nil
}

func (s *Source) history(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	if !fluxgate.ValidID(id) {
		return nil, nil
	}
	found, err := s.run(ctx, historyScript, []string{s.keys.heads, s.keys.history(id)}, id, before, limit)
	if err != nil {
		return nil, err
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
	entries := make([]rules.Entry, 0, len(found))
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
