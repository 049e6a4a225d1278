package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// FromMemory implements [store.Store].
func (s *Store) FromMemory(d *store.Demand) string {
	switch {
	case d.Strict:
		return "none: consistency is strict"
	case slices.ContainsFunc(d.Bands, isConcurrency):
		return "none: a slot may be free at any moment"
	}
	switch why := s.whyNotLeased(d); {
	case why == "" && d.Shadow:
		return "local tokens"
	case why == "":
		return "rejections and local tokens"
	case d.Shadow:
		return "none: a shadow rule does not reject; " + why
	default:
		return "rejections; no local tokens: " + why
	}
}

// whyNotLeased returns what keeps slices of a bucket set from being taken, "" if nothing
// does.
func (s *Store) whyNotLeased(d *store.Demand) string {
	most, gateways := capacity(d.Bands), max(1, s.Gateways())
	switch {
	case s.journeys.far():
		return fmt.Sprintf("Redis answers after %v, above %v", s.journeys.recent().Round(time.Millisecond), MaxRoundTrip)
	case d.MaxWait > 0:
		return "requests wait for tokens"
	case !leasable(d):
		return "not all limits are token buckets"
	case largest(most, gateways) < minSlice:
		return fmt.Sprintf("capacity %d is below %d", most, minSlice*slicesPerShare*gateways)
	case slow(d.Bands):
		return fmt.Sprintf("refills below %d a second", minSlice*time.Second/Pause)
	}
	return ""
}
