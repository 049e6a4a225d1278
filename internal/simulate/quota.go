package simulate

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// quotaClock gives the quotas of a rule the periods of the log. The engine takes those of
// its machine's clock, which is right for a server.
type quotaClock struct {
	rule  *rules.Rule
	zones []*time.Location // of each band, nil for other kinds
	ends  int64            // of the first period that ends
	bands []store.ExactBand
}

// newQuotaClock is nil for a rule without quotas.
func newQuotaClock(r *rules.Rule) (*quotaClock, error) {
	q := &quotaClock{rule: r, zones: make([]*time.Location, len(r.Bands))}
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

// at returns the bands with the periods of a time, which does not step back.
func (q *quotaClock) at(micros int64, bands []store.ExactBand) []store.ExactBand {
	if micros < q.ends {
		return q.bands
	}
	q.bands = slices.Clone(bands) // a store may keep the list
	q.ends = 0
	for i, zone := range q.zones {
		if zone == nil {
			continue
		}
		for j, edge := range calendar.Edges(q.rule.Bands[i].Period, zone, time.UnixMicro(micros)) {
			q.bands[i].Edges[j] = edge.UnixMicro()
		}
		if end := q.bands[i].Edges[1]; q.ends == 0 || end < q.ends {
			q.ends = end
		}
	}
	return q.bands
}
