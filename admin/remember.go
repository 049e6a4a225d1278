package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// rememberFor is how long a version is kept: long enough to page through it. It must
// be short, because a source that was emptied counts from 1 again, with other content.
const rememberFor = 10 * time.Second

// maxRemembered is how many versions are kept: two can be compared.
const maxRemembered = 2

// Remembering returns an editor that keeps recently read versions in memory for some
// seconds, because paging through a rule set or comparing two reads the same versions
// repeatedly. Use it for reads only.
func Remembering(editor rules.Editor) rules.Editor { return &remembering{Editor: editor} }

type remembering struct {
	rules.Editor

	mu   sync.Mutex
	last []remembered // most recently read last
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
	r.last = slices.DeleteFunc(r.last, func(old remembered) bool {
		return time.Since(old.at) >= rememberFor || old.RuleSetID == v.RuleSetID && old.Revision == v.Revision
	})
	r.last = append(r.last[max(0, len(r.last)-maxRemembered+1):], remembered{v, time.Now()})
}
