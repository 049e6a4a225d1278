package filerules

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	// maxReads is how often files are read that do not stop changing.
	maxReads = 20
	// maxGone is how many rule sets are remembered that were taken away.
	maxGone = 10_000
)

// state is what the files said at one time. It never changes.
type state struct {
	snapshot *snapshot
	checked  time.Time // when the content was compared last; guarded by turn
	// documents are what was read from each file, by its content.
	documents map[documentKey]*document
	versions  map[string]rules.Version
	// heads are those of the versions and of rule sets that were there once.
	heads map[string]rules.Head
	// err is what is wrong with the files. Then there are no versions.
	err error
}

type documentKey struct {
	name string
	sum  [32]byte
}

// look is what the files say now. The error is that of the reading, or of the
// content. A thorough look reads the content even if the files look untouched.
func (s *Source) look(ctx context.Context, thorough bool) (*state, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !thorough && s.untouched() {
		return s.current, s.current.err
	}
	now, err := s.readStill(ctx)
	if err != nil {
		return nil, err
	}
	if s.current != nil && s.current.snapshot.same(now) {
		s.current.snapshot, s.current.checked = now.withoutData(), time.Now()
		return s.current, s.current.err
	}
	if len(now.contents) == 0 && s.good != nil && len(s.good.heads) > 0 {
		return nil, fmt.Errorf("reading rules: %s has no rule files any more: that is not taken as a deletion", s.path)
	}
	s.current = s.build(now)
	if s.current.err == nil {
		s.good = s.current
	}
	return s.current, s.current.err
}

// untouched reports whether the files look as they did when they were read,
// not long ago.
func (s *Source) untouched() bool {
	if s.current == nil || time.Since(s.current.checked) >= s.config.Interval {
		return false
	}
	files, err := find(s.path)
	return err == nil && s.current.snapshot.unmoved(files)
}

// readStill reads the files until they are what they were a moment before. A
// file that an editor replaces may be away for a moment too.
func (s *Source) readStill(ctx context.Context) (*snapshot, error) {
	before, errBefore := read(s.path)
	if errBefore == nil && s.current != nil && s.current.snapshot.same(before) {
		return before, nil // nothing new, so nothing to wait for
	}
	for range maxReads {
		if err := s.pause(ctx, s.config.Settle); err != nil {
			return nil, err
		}
		now, err := read(s.path)
		switch {
		case err != nil && errBefore != nil:
			return nil, err
		case err == nil && errBefore == nil && now.same(before):
			return now, nil
		}
		before, errBefore = now, err
	}
	return nil, fmt.Errorf("reading rules: the files in %s do not stop changing", s.path)
}

// build makes a state of new content. What has not changed is not read again.
func (s *Source) build(now *snapshot) *state {
	next := &state{
		checked:   time.Now(),
		documents: make(map[documentKey]*document, len(now.contents)),
		versions:  map[string]rules.Version{},
		heads:     map[string]rules.Head{},
	}
	documents := make([]*document, 0, len(now.contents))
	for _, c := range now.contents {
		key := documentKey{c.name, c.sum}
		var d *document
		if s.current != nil {
			d = s.current.documents[key]
		}
		if d == nil {
			d = parse(c.name, c.data)
		}
		next.documents[key] = d
		documents = append(documents, d)
	}
	next.err = merge(documents)
	if next.err == nil {
		for i, d := range documents {
			next.take(d, now.contents[i].changed)
		}
		next.remember(s.good)
	}
	next.snapshot = now.withoutData()
	return next
}

// take hands the rule sets of a file out.
func (s *state) take(d *document, changed time.Time) {
	for _, set := range d.sets {
		head := rules.Head{Revision: set.revision}
		s.heads[set.id] = head
		s.versions[set.id] = rules.Version{
			Entry:   rules.Entry{RuleSetID: set.id, Head: head, At: changed.UTC()},
			RuleSet: set.rules,
		}
	}
}

// remember keeps the heads of rule sets that were there before. Beyond the
// bound they are forgotten, and whoever holds one keeps it.
func (s *state) remember(before *state) {
	if before == nil {
		return
	}
	gone := 0
	for id, head := range before.heads {
		if _, there := s.heads[id]; !there && gone < maxGone {
			s.heads[id] = rules.Head{Revision: head.Revision, Deleted: true}
			gone++
		}
	}
}

// withoutData is the snapshot with the checksums of the content alone.
func (s *snapshot) withoutData() *snapshot {
	slim := &snapshot{files: s.files, at: s.at, contents: make([]content, len(s.contents))}
	for i, c := range s.contents {
		c.data = nil
		slim.contents[i] = c
	}
	return slim
}
