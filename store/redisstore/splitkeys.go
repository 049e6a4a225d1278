package redisstore

import (
	"slices"

	"github.com/fluxgate/fluxgate/store"
)

// A bucket set whose bands include one that limits concurrency has two keys: its value, and
// the holders of its slots. While their slot of the cluster moves, a call may name one key
// only. Then such a bucket set is decided as two.

// singleKeys are demands that name one key each.
type singleKeys struct {
	demands []store.Demand
	// places has the positions of the demands that each one was split into, and bands those
	// of their bands in it.
	places [][]int
	bands  [][]int
}

func splitKeys(demands []store.Demand) singleKeys {
	s := singleKeys{places: make([][]int, len(demands))}
	for i := range demands {
		for _, bands := range splitBands(demands[i].Bands) {
			d := demands[i]
			if len(bands) < len(d.Bands) {
				d.Bands = pick(d.Bands, bands)
			}
			s.places[i] = append(s.places[i], len(s.demands))
			s.demands, s.bands = append(s.demands, d), append(s.bands, bands)
		}
	}
	return s
}

// merge writes the results of the demands into an outcome of those that were split.
func (s *singleKeys) merge(from, out *store.Outcome) {
	for i, places := range s.places {
		result := &out.Results[i]
		for n, place := range places {
			part := &from.Results[place]
			for j, band := range s.bands[place] {
				result.Bands[band] = part.Bands[j]
			}
			if n == 0 {
				bands := result.Bands
				*result = *part
				result.Bands = bands
				continue
			}
			result.Wait, result.Granted = max(result.Wait, part.Wait), min(result.Granted, part.Granted)
			// Of two that do not fit, the value's status says more.
			if result.Status == store.OK || part.Status == store.Unavailable {
				result.Status = part.Status
			}
		}
		if result.Status == store.TooCostly { // no wait helps
			result.Wait = 0
			for j := range result.Bands {
				result.Bands[j].Wait = 0
			}
		}
	}
}

// splitTake is a take by its keys: first the value, then the slots.
func splitTake(t *store.Taken) []store.Taken {
	var parts []store.Taken
	for _, bands := range splitBands(t.Bands) {
		part := *t
		part.Bands = pick(t.Bands, bands)
		if t.Due != nil {
			part.Due = pick(t.Due, bands)
		}
		parts = append(parts, part)
	}
	return parts
}

// splitBands returns the positions of the bands of each key.
func splitBands(bands []store.ExactBand) [][]int {
	all := make([]int, len(bands))
	for i := range all {
		all[i] = i
	}
	slot := slotBand(bands)
	if slot < 0 || len(bands) == 1 {
		return [][]int{all}
	}
	return [][]int{slices.Delete(all, slot, slot+1), {slot}}
}

func pick[T any](all []T, places []int) []T {
	picked := make([]T, len(places))
	for i, place := range places {
		picked[i] = all[place]
	}
	return picked
}
