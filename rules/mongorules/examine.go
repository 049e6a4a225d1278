package mongorules

import (
	"context"
)

// Examine returns why an edit of the documents of a rule set would be refused,
// or nil. Unlike [Source.Mend] it changes nothing.
func (s *Source) Examine(ctx context.Context, id string) error {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return err
	}
	docs, err := s.fetchDocuments(ctx, id)
	if err != nil || h.never() && len(docs) == 0 {
		return err
	}
	edited := docs
	var c content
	var found survey
	if !h.never() {
		if c, err = s.fetchContent(ctx, h); err != nil {
			return err
		}
		found = look(h, c.want, docs, c.overrules)
		edited = found.edited
	}
	if len(edited) == 0 {
		return nil
	}
	if _, err := candidate(id, found.rest(c), edited); err != nil {
		return &editError{edited, err}
	}
	return nil
}
