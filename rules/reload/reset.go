package reload

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Resetter is a store that can reset buckets. Every [store.Store] is one.
type Resetter interface {
	Reset(ctx context.Context, what store.Reset) (did bool, err error)
}

// pendingReset is a reset that is due. Its zero value is none.
type pendingReset struct{ mark, after string } // see [store.Reset]

// markOf identifies a version to all gateways. Without a commit, it is that of the content: the
// same if content returns.
func markOf(head rules.Head) string {
	if head.Commit == "" {
		return fmt.Sprint(head.Revision)
	}
	sum := sha256.Sum256([]byte(head.Commit)) // may have any characters
	return fmt.Sprintf("%d-%x", head.Revision, sum[:8])
}

// resetBuckets does the pending reset of a new version. If the store is
// unavailable, it is tried again later.
func (r *Reloader) resetBuckets(ctx context.Context, s *ruleSet) {
	due := s.snapshot().reset
	if due == (pendingReset{}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	// Of several gateways one resets.
	did, err := r.config.ResetBuckets.Reset(ctx, store.Reset{Key: store.Key{RuleSet: s.id}, Mark: due.mark, After: due.after})
	if err != nil {
		r.config.Logger.Error("cannot reset the buckets of a rule set; trying again", "ruleSet", s.id, "error", err)
		return
	}
	if did {
		r.counts.add(&r.counts.Resets)
	}
	s.mu.Lock()
	if s.state.reset == due {
		s.state.reset = pendingReset{}
	}
	s.mu.Unlock()
}
