package filerules

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/internal/rulecontent"
	"github.com/fluxgate/fluxgate/rules"
)

// maxReads is how often changing files are read before it is an error.
const maxReads = 20

// state is the content of the files at one time.
type state struct {
	snapshot *snapshot
	checked  time.Time // when the content was last compared
	// documents are the parsed files, by name and checksum.
	documents map[string]*document
	rulecontent.Content
	// err has the problems of the files. If it is set there are no versions.
	err error
}

// refresh returns the current state of the files, or the error of reading or
// parsing them.
func (s *Source) refresh(ctx context.Context) (*state, error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.recent() {
		return s.current, s.current.err
	}
	now, err := s.readStable(ctx)
	if err != nil {
		return nil, err
	}
	if s.current == nil || !sameContent(s.current.snapshot.files, now.files) {
		if len(now.files) == 0 && s.good != nil && len(s.good.Heads) > 0 {
			return nil, fmt.Errorf("reading rules: %s has no rule files; the last good rules stay in effect", s.path)
		}
		s.current = s.build(now)
		if s.current.err == nil {
			s.good = s.current
		}
	}
	for i := range now.files {
		now.files[i].data = nil
	}
	s.current.snapshot, s.current.checked = now, time.Now()
	return s.current, s.current.err
}

// recent reports whether the files were read within the interval and have the
// same metadata.
func (s *Source) recent() bool {
	if s.current == nil || time.Since(s.current.checked) >= s.config.Interval {
		return false
	}
	files, err := find(s.path, &s.config)
	return err == nil && s.current.snapshot.unchanged(files)
}

// readStable reads the files until two consecutive reads have the same content. A
// file that an editor replaces may also be absent for a moment.
func (s *Source) readStable(ctx context.Context) (*snapshot, error) {
	before, errBefore := read(s.path, &s.config)
	if errBefore == nil && s.current != nil && sameContent(s.current.snapshot.files, before.files) {
		return before, nil
	}
	for range maxReads {
		if err := s.pause(ctx, s.config.Settle); err != nil {
			return nil, err
		}
		now, err := read(s.path, &s.config)
		switch {
		case err != nil && errBefore != nil:
			return nil, err
		case err == nil && errBefore == nil && sameContent(now.files, before.files):
			return now, nil
		}
		before, errBefore = now, err
	}
	return nil, fmt.Errorf("reading rules: the files in %s keep changing", s.path)
}

// build parses new content. Unchanged files are not parsed again.
func (s *Source) build(now *snapshot) *state {
	next := &state{documents: map[string]*document{}, Content: rulecontent.New()}
	documents := make([]*document, len(now.files))
	for i, f := range now.files {
		key := f.name + string(f.sum[:])
		if s.current != nil {
			documents[i] = s.current.documents[key]
		}
		if documents[i] == nil {
			documents[i] = s.parse(f.name, f.data)
		}
		next.documents[key] = documents[i]
	}
	if next.err = merge(documents); next.err != nil {
		return next
	}
	for i, d := range documents {
		for _, set := range d.sets {
			head, at := rules.Head{Revision: set.revision}, now.files[i].info.ModTime().UTC()
			next.Add(rules.Version{Entry: rules.Entry{RuleSetID: set.id, Head: head, At: at}, RuleSet: set.rules})
		}
	}
	if s.good != nil {
		next.Remember(&s.good.Content)
	}
	return next
}

func (s *Source) parse(name string, data []byte) *document {
	d := newDocument(name, s.config.Warns)
	d.read(data, s.config.Parse)
	return d
}

// Warnings returns the warnings of all rule sets ([rules.Set.Warnings]) with their positions, if
// [Config.Warns] is set. The error is that of Load.
func (s *Source) Warnings(ctx context.Context) (found []Problem, err error) {
	now, err := s.refresh(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range now.snapshot.files {
		found = append(found, now.documents[f.name+string(f.sum[:])].warnings...)
	}
	return found, nil
}
