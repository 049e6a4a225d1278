package admin

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// rememberFor is how long a version is kept: long enough to page through it. It must
// be short: a source that was emptied counts from 1 again, and a former revision is known by
// its number only.
const rememberFor = 10 * time.Second

// Remembering returns an editor that keeps the last two versions read in memory for some
// seconds: pages of a rule set and comparisons read the same versions repeatedly. Use it for
// reads only.
func Remembering(editor rules.Editor) rules.Editor { return &remembering{Editor: editor} }

type remembering struct {
	rules.Editor

	mu   sync.Mutex
	last [2]remembered // the one that was read last is the second
}

type remembered struct {
	version *rules.Version
	at      time.Time
}

// Load implements [rules.Source].
func (r *remembering) Load(ctx context.Context, id string) (*rules.Version, error) {
	heads, err := r.Revisions(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	return r.recall(id, heads[id], func() (*rules.Version, error) { return r.Editor.Load(ctx, id) })
}

// Version implements [rules.Editor].
func (r *remembering) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	return r.recall(id, rules.Head{Revision: revision}, func() (*rules.Version, error) { return r.Editor.Version(ctx, id, revision) })
}

// recall returns a version from memory, or reads it. A head may have no commit.
func (r *remembering) recall(id string, head rules.Head, read func() (*rules.Version, error)) (*rules.Version, error) {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	for _, known := range last {
		v := known.version
		if v != nil && v.RuleSetID == id && v.Revision == head.Revision && cmp.Or(head.Commit, v.Commit) == v.Commit &&
			time.Since(known.at) < rememberFor {
			return v, nil
		}
	}
	v, err := read()
	if err == nil && v.RuleSet != nil {
		r.mu.Lock()
		r.last = [2]remembered{r.last[1], {v, time.Now()}}
		r.mu.Unlock()
	}
	return v, err
}
