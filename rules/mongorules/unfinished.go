package mongorules

import (
	"context"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// unfinished reports that a document is of a rule without bands and was never
// written by us. What it says is nobody's limit yet.
func (d *document) unfinished() bool {
	if d.checksum != "" || d.revision != 0 {
		return false
	}
	if action, ok := d.raw.Lookup("action").StringValueOK(); ok && action != string(fluxgate.ActionLimit) {
		return false // needs no bands
	}
	switch bands := d.raw.Lookup("bands"); bands.Type {
	case 0, bson.TypeNull:
		return true
	case bson.TypeArray:
		values, err := bands.Array().Values()
		return err == nil && len(values) == 0
	}
	return false
}

// leaveAlone splits off the documents of unfinished rules that a revision does
// not have. One of a rule that it has is an edit that deletes the bands.
func leaveAlone(docs []document, want []projected) (rest, alone []document) {
	has := make(map[string]bool, len(want))
	for _, w := range want {
		has[w.id] = true
	}
	for _, d := range docs {
		if d.unfinished() && !has[d.id] {
			alone = append(alone, d)
		} else {
			rest = append(rest, d)
		}
	}
	return rest, alone
}

// claimUnfinished are the fingerprints of the unfinished documents whose rules a
// change has: it takes their place.
func (s *Source) claimUnfinished(ctx context.Context, before *ground, set *fluxgate.RuleSet) ([]string, error) {
	if set == nil {
		return nil, nil
	}
	alone := before.alone
	if before.docs == nil && alone == nil {
		docs, err := s.fetchDocuments(ctx, before.id)
		if err != nil {
			return nil, err
		}
		_, alone = leaveAlone(docs, nil)
	}
	var claimed []string
	for _, d := range alone {
		if _, has := set.Rule(d.id); has {
			claimed = append(claimed, d.fingerprint())
		}
	}
	return claimed, nil
}

// warnings remembers which unfinished documents were warned about, by rule set.
type warnings struct {
	mu    sync.Mutex
	names map[string]string
}

// maxWarnings bounds for how many rule sets that is remembered.
const maxWarnings = 1_000

// news reports whether the unfinished documents of a rule set are others than
// before.
func (w *warnings) news(id, names string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[id] == names {
		return false
	}
	if w.names == nil || len(w.names) >= maxWarnings {
		w.names = map[string]string{}
	}
	if w.names[id] = names; names == "" {
		delete(w.names, id)
	}
	return names != ""
}

// warnUnfinished logs which documents are left alone, once.
func (s *Source) warnUnfinished(id string, alone []document) {
	names := (&editError{docs: alone}).names()
	slices.Sort(names)
	if text := strings.Join(names, ", "); s.unfinished.news(id, text) {
		s.config.Logger.Warn("documents of rules without bands are left alone: add bands to put the rules into force",
			"ruleSet", id, "documents", text, "count", len(alone))
	}
}
