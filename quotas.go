package fluxgate

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// quotas keeps the bands of a rule that has quotas with the edges of their
// current periods.
type quotas struct {
	zones   []*time.Location // of each band, nil for other kinds
	current atomic.Pointer[[]store.ExactBand]
}

// newQuotas is nil for a rule without quotas.
func newQuotas(r *rules.Rule) (*quotas, error) {
	q := &quotas{zones: make([]*time.Location, len(r.Bands))}
	found := false
	for i, b := range r.Bands {
		if b.Kind != rules.Quota {
			continue
		}
		zone, err := calendar.Zone(b.Timezone)
		if err != nil {
			return nil, err
		}
		q.zones[i], found = zone, true
	}
	if !found {
		return nil, nil
	}
	return q, nil
}

// bandsNow returns the bands of the rule. Those of quotas have the edges of the
// current period and the next, by the clock of a store, which decides when a period ends.
func (r *compiledRule) bandsNow(clock store.Store) []store.ExactBand {
	if r.quotas == nil {
		return r.bands
	}
	now := clock.Now()
	known := r.quotas.current.Load()
	if known == nil || !r.quotas.hold(*known, now) {
		bands := slices.Clone(r.bands)
		for i, zone := range r.quotas.zones {
			if zone != nil {
				bands[i].Edges = edges(r.Bands[i].Period, zone, now)
			}
		}
		known = &bands
		r.quotas.current.Store(known)
	}
	return *known
}

// hold reports whether a moment is in the current period of all quotas.
func (q *quotas) hold(bands []store.ExactBand, now time.Time) bool {
	at := now.UnixMicro()
	for i, zone := range q.zones {
		if zone != nil && (at < bands[i].Edges[0] || at >= bands[i].Edges[1]) {
			return false
		}
	}
	return true
}

func edges(p rules.Period, zone *time.Location, at time.Time) (micros [3]int64) {
	for i, edge := range calendar.Edges(p, zone, at) {
		micros[i] = edge.UnixMicro()
	}
	return micros
}
