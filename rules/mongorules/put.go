package mongorules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	if err := change.Check(); err != nil {
		return 0, err
	}
	document, err := encode(set)
	if err != nil {
		return 0, err
	}
	// Read it back: free attributes may still be in the caller's hands.
	own, err := fluxgate.ParseRuleSet(document)
	if err != nil {
		return 0, err
	}
	want, err := project(own)
	if err != nil {
		return 0, err
	}
	return s.change(ctx, own.ID(), draft{content: content{set: own, want: want}, document: document, change: change})
}

// encode is the JSON that is kept of a rule set.
func encode(set *fluxgate.RuleSet) ([]byte, error) {
	document, err := set.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("writing rule set %q as JSON: %w", set.ID(), err)
	}
	return document, rules.CheckSize(document)
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	if err := change.Check(); err != nil {
		return 0, err
	}
	if !fluxgate.ValidID(id) {
		return 0, notFound(id)
	}
	return s.change(ctx, id, draft{change: change})
}

// change makes a change. Once it is committed, what is left to do is somebody
// else's if it is not done here.
func (s *Source) change(ctx context.Context, id string, d draft) (int64, error) {
	done, err := s.turns.take(ctx, id)
	if err != nil {
		return 0, err
	}
	defer done()
	const attempts = 10 // each further one means that another rule set wants, or has freed, a rule id
	var h *head
	var before *ground
	err = errFenced
	for range attempts {
		if !errors.Is(err, errFenced) {
			break
		}
		if before, err = s.prepare(ctx, id, d.change); err != nil {
			return 0, err
		}
		if d.set == nil && (before.head.never() || before.head.Deleted) {
			return 0, notFound(id)
		}
		if err := s.checkRuleIDs(ctx, d.set, before.docs); err != nil {
			return 0, err
		}
		var claimed []string
		if claimed, err = s.claimUnfinished(ctx, before, d.set); err != nil {
			return 0, err
		}
		d.overrules = slices.Concat(before.overrules, claimed)
		h, err = s.commit(ctx, before, d)
	}
	if err != nil {
		return 0, err
	}
	if err := s.finish(ctx, h, d.content); err != nil {
		s.config.Logger.Warn("a change of rules is made, and its documents will follow later", "ruleSet", h.ID, "revision", h.Revision, "error", err)
	}
	return h.Revision, nil
}

// ground is what a change is made on.
type ground struct {
	id        string
	head      *head             // nil if the rule set never existed
	set       *fluxgate.RuleSet // what it says, nil if that is not known
	docs      []document
	alone     []document // of unfinished rules
	overrules []string
}

// prepare clears the ground for a change: it takes in what was edited by
// others, so that a change never writes over what its author has not seen.
func (s *Source) prepare(ctx context.Context, id string, change rules.Change) (*ground, error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := change.CheckHead(id, h.place()); err != nil && !h.never() {
		return nil, err // and what others have done would not help it
	}
	before, err := s.takeIn(ctx, id, h, false)
	var invalid *editError
	switch {
	case errors.As(err, &invalid):
		s.config.Logger.Warn("a change of rules overrules an edit of their documents that cannot be taken",
			"ruleSet", id, "author", change.Author, "rules", invalid.names(), "error", invalid)
		before.overrules = append(before.overrules, invalid.fingerprints()...)
	case errors.As(err, new(*takenError)), errors.Is(err, errRefused), errors.Is(err, errNoSnapshot), errors.Is(err, errBroken):
		// The current revision itself cannot be followed. Then only another
		// one helps, and this is it.
		s.config.Logger.Warn("a change of rules takes the place of a broken revision", "ruleSet", id, "author", change.Author, "error", err)
	case err != nil:
		return nil, err
	}
	if err := change.CheckHead(id, before.head.place()); err != nil {
		return nil, err
	}
	return before, nil
}

// checkRuleIDs refuses rules whose ids another rule set has. Those with a
// document of ours are known to be free.
func (s *Source) checkRuleIDs(ctx context.Context, set *fluxgate.RuleSet, docs []document) error {
	if set == nil {
		return nil
	}
	own := make(map[string]bool, len(docs))
	for _, d := range docs {
		own[d.id] = true
	}
	var ask []string
	for r := range set.Rules() {
		if !own[r.ID] {
			ask = append(ask, r.ID)
		}
	}
	owners, err := s.owners(ctx, set.ID(), ask)
	if err != nil || len(owners) == 0 {
		return err
	}
	if s.finishOthers(ctx, owners) {
		if owners, err = s.owners(ctx, set.ID(), ask); err != nil {
			return err
		}
	}
	return takenIDs(set, owners)
}

// takenIDs says which rules of a rule set have ids that others own.
func takenIDs(set *fluxgate.RuleSet, owners map[string]string) error {
	var taken []fluxgate.Problem
	i := 0
	for r := range set.Rules() {
		if owner, ok := owners[r.ID]; ok && len(taken) < maxProblems {
			taken = append(taken, rules.Taken(i, r.ID, owner))
		}
		i++
	}
	if len(taken) == 0 {
		return nil
	}
	return &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: taken}
}

// finishOthers finishes what writers of other rule sets left, since their
// documents are in the way. It reports whether there was anything.
func (s *Source) finishOthers(ctx context.Context, owners map[string]string) bool {
	const most = 16 // rule sets; more are not left behind by accident
	seen := map[string]bool{}
	finished := false
	for _, id := range owners {
		if seen[id] || len(seen) == most {
			continue
		}
		seen[id] = true
		h, err := s.fetchHead(ctx, id)
		if err != nil || h.never() || h.Projected >= h.Revision {
			continue
		}
		c, err := s.fetchContent(ctx, h)
		if err == nil {
			err = s.finish(ctx, h, c)
		}
		finished = finished || err == nil
	}
	return finished
}
