package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/retry"
	"github.com/fluxgate/fluxgate/internal/unsent"
	"github.com/fluxgate/fluxgate/store"
)

// timeout bounds calls to the store that do not end with a request.
const timeout = time.Second

// Config is what a [Store] has to know of rules and of who uses it. The zero value is valid.
type Config struct {
	// Share is the share of each band that the fallback applies. 0 means one divided by the
	// number of processes that the store has counted.
	Share float64
	// Bands returns a copy of the bands that a bucket set has in the store now, given those of a take
	// from it, or nil if they are not known. For a take from the fallback, local returns the
	// bands there of those in the store; otherwise it is nil. It may load rules. Without
	// this function bands do not change.
	Bands func(ctx context.Context, key store.Key, taken []store.ExactBand, local LocalBands) []store.ExactBand
	// Failed is called with each error of the store and of the fallback.
	Failed func(ctx context.Context, err error)
	// Withdrawn is called when tokens of the store were given back for a request that is
	// not admitted.
	Withdrawn func(ctx context.Context, s store.Settlement, err error)
}

// LocalBands returns the bands in the fallback of bands in the store.
type LocalBands func(bands []store.ExactBand) []store.ExactBand

// Store decides in a fallback what the store that it wraps cannot. It is safe for use by any
// number of goroutines.
type Store struct {
	store.Store
	fallback store.Fallback // nil if no demand is to be decided locally
	config   Config
	share    bucket.Share // zero: 1 / number of gateways
	shares   shares
	ledger   ledger
	charges  *retry.Queue[*usage]
	unsent   *unsent.Queue // settlements that the store did not get
	// settling is held while a take is settled in the fallback: a charge sees all of a
	// settlement, or nothing.
	settling sync.Mutex
}

// New returns a store that wraps another. Without a fallback, demands that are to be decided
// there stay undecided, and are not admitted.
func New(shared store.Store, fallback store.Fallback, config Config) *Store {
	s := &Store{Store: shared, fallback: fallback, config: config}
	if config.Share > 0 {
		s.share = bucket.ShareOf(config.Share)
	}
	s.charges = retry.New(s.charge)
	s.unsent = unsent.New(shared.Settle, func(err error) { s.failed(context.Background(), err) })
	return s
}

// Stats counts the tokens of the fallback since the store was created.
type Stats struct {
	// Admitted is how many tokens the fallback has granted.
	Admitted int64
	// Pending is how many of these tokens are not yet debited from the store. Tokens that
	// refill until then are not debited.
	Pending int64
	// Charged is how many of these tokens were debited from the store.
	Charged int64
	// Uncharged is how many of these tokens were not debited from the store, because the
	// bucket was empty, the reply was lost, the bands changed, too many buckets were in
	// use, or the store was closed.
	Uncharged int64
	// PendingSettlements is how many settlements wait until the store is available. A receipt has one
	// for each rule that was taken from, and one for each band that was charged after an outage.
	PendingSettlements int64
	// LostSettlements is how many such settlements were lost: too many waited, or for too long, the reply
	// was lost, the original charge is unknown, or the store was closed.
	LostSettlements int64
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	l := &s.ledger
	return Stats{
		l.admitted.Load(), l.pending.Load(), l.charged.Load() / million, l.uncharged.Load() / million,
		s.unsent.Waiting(), l.unsettled.Load() + s.unsent.Lost(),
	}
}

func (s *Store) failed(ctx context.Context, err error) {
	if s.config.Failed != nil {
		s.config.Failed(ctx, err)
	}
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, takes store.Takes) ([]bool, error) {
	held := make([]bool, len(takes))
	var failures []error
	for _, local := range []bool{false, true} {
		var part store.Takes
		var indices []int
		for i := range takes {
			if fromFallback(&takes[i]) == local {
				part, indices = append(part, takes[i]), append(indices, i)
			}
		}
		if len(part) == 0 {
			continue
		}
		buckets := s.Store
		if local {
			buckets = s.fallback
		}
		each, err := buckets.Extend(ctx, part)
		failures = append(failures, err)
		for k := range each {
			held[indices[k]] = each[k]
		}
	}
	return held, errors.Join(failures...)
}

func fromFallback(t *store.Taken) bool { return t.Source == store.FromFallback }

// Reset implements [store.Store]. If the store or the fallback fails, the other is still reset.
func (s *Store) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	var failures []error
	if did, err = s.Store.Reset(ctx, what); err != nil {
		failures = append(failures, fmt.Errorf("in the store: %w", err))
	}
	if s.fallback != nil {
		// The fallback is in this process, and the store may have used up the time.
		if _, err := s.fallback.Reset(context.WithoutCancel(ctx), what); err != nil {
			failures = append(failures, fmt.Errorf("in the fallback: %w", err))
		} else {
			s.ledger.reset(what.Key)
		}
	}
	return did, errors.Join(failures...)
}

// Close implements [store.Store]. The fallback belongs to who made it.
func (s *Store) Close() error { return s.Store.Close() }
