package mongorules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// external is the author of what others have done to the documents.
const external = "external"

// editError says why an edit of documents cannot be taken.
type editError struct {
	docs    []document
	problem error
}

func (e *editError) Error() string { return e.problem.Error() }
func (e *editError) Unwrap() error { return e.problem }

func (e *editError) names() []string {
	var names []string
	for _, d := range e.docs {
		names = append(names, d.name()[:min(len(d.name()), 70)])
	}
	return names[:min(len(names), maxProblems)]
}

func (e *editError) fingerprints() []string {
	var all []string
	for _, d := range e.docs {
		all = append(all, d.fingerprint())
	}
	return all
}

// takeIn takes in what others have done to the documents of a rule set, after
// finishing what a writer left. Who is about to make the next revision need not
// finish this one, unless there is something to take in. Where it fails, the
// ground is still what stands.
func (s *Source) takeIn(ctx context.Context, id string, h *head, finish bool) (*ground, error) {
	before := &ground{id: id, head: h}
	if h.never() {
		adopted, err := s.adopt(ctx, id, h)
		if adopted != nil {
			before.head = adopted
		}
		return before, err
	}
	if h.Projected < h.Revision {
		// Before anything can fail: the next change would take it for a
		// proposal that lost.
		if err := s.markCommitted(ctx, h); err != nil {
			return before, err
		}
	}
	c, err := s.fetchContent(ctx, h)
	if errors.Is(err, errNoSnapshot) {
		adopted, err := s.recover(ctx, h)
		if adopted != nil {
			before.head = adopted
		}
		return before, err
	}
	if err != nil {
		return before, err
	}
	before.set = c.set
	if err := s.readGround(ctx, before, c); err != nil {
		return before, err
	}
	if h.Projected < h.Revision {
		found := look(h, c.want, before.docs, c.overrules)
		before.overrules = found.seen()
		if !finish && len(found.edited) == 0 {
			return before, nil
		}
		if err := s.finish(ctx, h, c); err != nil {
			return before, err
		}
		if err := s.readGround(ctx, before, c); err != nil {
			return before, err
		}
	}
	changed, err := s.check(ctx, h, c, before.docs)
	if changed != nil {
		before.head, before.set = changed, nil
	}
	return before, err
}

// readGround reads the documents of a rule set, without those of unfinished
// rules.
func (s *Source) readGround(ctx context.Context, before *ground, c content) error {
	docs, err := s.fetchDocuments(ctx, before.id)
	if err != nil {
		return err
	}
	before.docs, before.alone = leaveAlone(docs, c.want)
	s.warnUnfinished(before.id, before.alone)
	return nil
}

// recover makes the documents the next revision of a rule set whose snapshot
// is missing, unless it only seemed so because the rule set has moved on.
func (s *Source) recover(ctx context.Context, h *head) (*head, error) {
	again, err := s.fetchHead(ctx, h.ID)
	if err != nil || again == nil || again.Snapshot != h.Snapshot {
		return again, err
	}
	adopted, err := s.adopt(ctx, h.ID, h)
	if err == nil && adopted == nil {
		err = fmt.Errorf("rule set %q at revision %d: %w, and there are no documents to make it from", h.ID, h.Revision, errNoSnapshot)
	}
	return adopted, err
}

// adopt makes a revision of documents that have nothing else to go by. It is
// nil if there are none.
func (s *Source) adopt(ctx context.Context, id string, old *head) (*head, error) {
	docs, err := s.fetchDocuments(ctx, id)
	if err != nil {
		return nil, err
	}
	docs, alone := leaveAlone(docs, nil)
	s.warnUnfinished(id, alone)
	if len(docs) == 0 {
		return nil, nil
	}
	next, err := candidate(id, nil, docs)
	if err != nil {
		return nil, &editError{docs, err}
	}
	next.change.Comment = "the documents that were found"
	return s.commitExternal(ctx, &ground{id: id, head: old, docs: docs}, next)
}

// check compares the documents with what they should be, and makes a revision
// of the differences. It returns the head if it has changed.
func (s *Source) check(ctx context.Context, h *head, c content, docs []document) (*head, error) {
	found := look(h, c.want, docs, c.overrules)
	gone := len(docs) == 0 && len(c.want) > 0
	if len(found.edited) == 0 && (len(found.missing) == 0 || gone) {
		if len(found.changes(h)) == 0 {
			return nil, s.noteProblem(ctx, h, "")
		}
		s.config.Logger.Warn("the documents of a rule set are written again", "ruleSet", h.ID, "revision", h.Revision,
			"missing", len(found.missing), "behind", len(found.behind), "left", len(found.left))
		return nil, s.finish(ctx, h, c)
	}
	next, err := candidate(h.ID, found.rest(c), found.edited)
	var made *head
	if err == nil {
		next.change.Comment = found.comment(c.want)
		made, err = s.commitExternal(ctx, &ground{id: h.ID, head: h, set: c.set}, next)
	}
	if errors.As(err, new(*fluxgate.ValidationError)) {
		err = &editError{found.edited, err}
		err = errors.Join(err, s.noteProblem(ctx, h, err.Error()))
	}
	return made, err
}

// rest are the rules that an edit leaves alone. Rules that were edited elsewhere
// keep what documents cannot show in full, as long as that was not edited.
func (f *survey) rest(c content) []fluxgate.Rule {
	if c.set == nil {
		return nil
	}
	changed := map[string]*document{}
	for _, w := range f.missing {
		changed[w.id] = nil
	}
	for i := range f.edited {
		changed[f.edited[i].id] = &f.edited[i]
	}
	var rest []fluxgate.Rule
	i := 0
	for r := range c.set.Rules() {
		switch d, ok := changed[r.ID]; {
		case !ok:
			rest = append(rest, r)
		case d != nil:
			d.refine(r, c.want[i])
		}
		i++
	}
	return rest
}

// refine gives an edited rule back what its document says less exactly than
// the rule that it was made from.
func (d *document) refine(from fluxgate.Rule, as projected) {
	fields, err := compare(d.rule, as.rule)
	if d.sum == "" || err != nil {
		return
	}
	if fields.same("attributes") {
		d.rule.Attributes = from.Attributes
	}
	if fields.same("createdAt") {
		d.rule.CreatedAt = from.CreatedAt
	}
	if fields.same("updatedAt") {
		d.rule.UpdatedAt = from.UpdatedAt
	}
}

// candidate is the rule set that an edit makes.
func candidate(id string, rest []fluxgate.Rule, edited []document) (draft, error) {
	all := rest
	var found []fluxgate.Problem
	for _, d := range edited {
		found = append(found, d.problems...)
		all = append(all, d.rule)
	}
	invalid := func() error {
		return &fluxgate.ValidationError{RuleSetID: id, Problems: found[:min(len(found), maxProblems)]}
	}
	if len(found) > 0 {
		return draft{}, invalid()
	}
	set, err := fluxgate.NewRuleSet(id, all...)
	for _, p := range problemsOf(err) {
		found = append(found, byRule(all, p))
	}
	if len(found) > 0 {
		return draft{}, invalid()
	}
	document, err := encode(set)
	if err != nil {
		return draft{}, err
	}
	want, err := project(set) // may be longer than what it was read from
	return draft{content: content{set: set, want: want}, document: document}, err
}

// byRule names the rule that a problem of a rule set is about by its id.
func byRule(all []fluxgate.Rule, p fluxgate.Problem) fluxgate.Problem {
	var i int
	if n, _ := fmt.Sscanf(p.Place, "rules[%d]", &i); n != 1 || i < 0 || i >= len(all) {
		return p
	}
	_, place, _ := strings.Cut(p.Place, "]")
	return inRule(all[i].ID, fluxgate.Problem{Place: strings.TrimPrefix(place, "."), Message: p.Message})
}

// comment says which rules an edit has changed.
func (f *survey) comment(want []projected) string {
	was := map[string]bool{}
	for _, w := range want {
		was[w.id] = true
	}
	var edited, added, removed []string
	for _, d := range f.edited {
		if was[d.id] {
			edited = append(edited, d.id)
		} else {
			added = append(added, d.id)
		}
	}
	for _, w := range f.missing {
		removed = append(removed, w.id)
	}
	var parts []string
	for _, part := range []struct {
		what string
		ids  []string
	}{{"edited", edited}, {"added", added}, {"removed", removed}} {
		if len(part.ids) > 0 {
			parts = append(parts, part.what+" "+strings.Join(part.ids, ", "))
		}
	}
	const most = 1_000 // ids are ASCII
	text := "documents " + strings.Join(parts, "; ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// commitExternal makes a revision of what others have done. Somebody else may
// be faster: then the head is theirs, and the edit waits for the next look.
func (s *Source) commitExternal(ctx context.Context, before *ground, next draft) (*head, error) {
	id := before.id
	next.change.Base, next.change.Author = before.head.place().Revision, external
	h, err := s.commit(ctx, before, next)
	if errors.As(err, new(*rules.ConflictError)) || errors.Is(err, errFenced) {
		return s.fetchHead(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	s.config.Logger.Info("an edit of documents became a revision", "ruleSet", id, "revision", h.Revision, "comment", h.Comment)
	if err := s.finish(ctx, h, next.content); err != nil {
		s.config.Logger.Warn("the documents of a rule set will follow later", "ruleSet", id, "revision", h.Revision, "error", err)
	}
	return h, nil
}

// noteProblem keeps what is wrong with an edit where every gateway sees it, or
// notes that nothing is.
func (s *Source) noteProblem(ctx context.Context, h *head, problem string) error {
	const most = 4_000
	if len(problem) > most {
		problem = strings.ToValidUTF8(problem[:most], "") + "…"
	}
	if problem == h.Problem {
		return nil
	}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "problem", Value: problem}}}}
	if problem == "" {
		update = bson.D{{Key: "$unset", Value: bson.D{{Key: "problem", Value: ""}}}}
	}
	return s.call(ctx, "noting what is wrong with an edit", func(ctx context.Context) error {
		_, err := s.heads.UpdateOne(ctx, h.same(), update)
		return err
	})
}
