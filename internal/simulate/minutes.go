package simulate

import (
	"cmp"
	"slices"
	"time"
)

// topMinutes keeps the busiest minutes. Times do not step back, so a minute is over when
// the next one begins.
type topMinutes struct {
	most    int
	measure func(*Minute) int64
	minute  int64 // since 1970
	current Minute
	best    []Minute // by the measure
}

// at returns the minute of a time.
func (t *topMinutes) at(micros int64) *Minute {
	if minute := micros / (60 * second); minute != t.minute {
		t.close()
		t.minute = minute
		t.current = Minute{Time: time.Unix(60*minute, 0).UTC()}
	}
	return &t.current
}

// close ends the current minute. Of equal ones the earlier is better.
func (t *topMinutes) close() {
	if t.measure(&t.current) > 0 {
		t.best = append(t.best, t.current)
		slices.SortStableFunc(t.best, func(a, b Minute) int { return cmp.Compare(t.measure(&b), t.measure(&a)) })
		t.best = t.best[:min(len(t.best), t.most)]
	}
	t.current = Minute{}
}
