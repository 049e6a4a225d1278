package failover

import (
	"slices"
	"sync"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// maxShares bounds the lists of bands whose shares are kept.
const maxShares = 10_000

// shares keeps lists of bands at a share, by the first band of each list. A list of bands does
// not change: see [store.Demand].
type shares struct {
	mu    sync.RWMutex
	share bucket.Share
	lists map[*store.ExactBand][]store.ExactBand
}

// local returns the bands in the fallback of bands in the store.
func (s *Store) local(bands []store.ExactBand) []store.ExactBand {
	share, known := s.share, &s.shares
	if share == (bucket.Share{}) {
		share = bucket.OneOf(s.Gateways())
	}
	known.mu.RLock()
	list := known.lists[&bands[0]]
	same := known.share == share
	known.mu.RUnlock()
	if same && list != nil {
		return list
	}
	list = slices.Clone(bands)
	for i := range list {
		list[i] = bands[i].Share(share)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.share != share || len(known.lists) >= maxShares {
		known.lists = nil
	}
	if known.lists == nil {
		known.share, known.lists = share, map[*store.ExactBand][]store.ExactBand{}
	}
	known.lists[&bands[0]] = list
	return list
}
