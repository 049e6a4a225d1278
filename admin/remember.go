package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// rememberFor is how long a version is remembered: long enough to page through
// it. A source that was emptied and filled anew counts from 1 again, so that
// the same revision may be another.
const rememberFor = 10 * time.Second

// maxRemembered is how many rules are remembered of all versions together: two
// of the largest rule sets.
const maxRemembered = 20_000

// Remembering is an editor that keeps the versions that were last read in
// memory for some seconds: who pages through a rule set, or compares two, asks
// for the same ones again and again. It is for readers. Who changes a rule set
// reads it anew.
func Remembering(editor rules.Editor) rules.Editor { return &remembering{Editor: editor} }

type remembering struct {
	rules.Editor

	mu   sync.Mutex
	last []remembered // the one that was read last stands last
}

type remembered struct {
	*rules.Version
	at time.Time
}

// Load implements [rules.Source].
func (r *remembering) Load(ctx context.Context, id string) (*rules.Version, error) {
	heads, err := r.Revisions(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if head, ok := heads[id]; ok && !head.Deleted {
		if known := r.recall(id, head.Revision); known != nil {
			return known, nil
		}
	}
	v, err := r.Editor.Load(ctx, id)
	if err == nil {
		r.keep(v)
	}
	return v, err
}

// Version implements [rules.Editor].
func (r *remembering) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if known := r.recall(id, revision); known != nil {
		return known, nil
	}
	v, err := r.Editor.Version(ctx, id, revision)
	if err == nil {
		r.keep(v)
	}
	return v, err
}

func (r *remembering) recall(id string, revision int64) *rules.Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.last {
		if v.RuleSetID == id && v.Revision == revision && time.Since(v.at) < rememberFor {
			return v.Version
		}
	}
	return nil
}

func (r *remembering) keep(v *rules.Version) {
	if v.RuleSet == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	kept, total := []remembered{{v, now}}, v.RuleSet.Len()
	for i := len(r.last) - 1; i >= 0; i-- {
		old := r.last[i]
		total += old.RuleSet.Len() + 100 // a small one counts too
		if total > maxRemembered || now.Sub(old.at) >= rememberFor {
			break
		}
		if old.RuleSetID != v.RuleSetID || old.Revision != v.Revision {
			kept = append(kept, old)
		}
	}
	slices.Reverse(kept)
	r.last = kept
}
