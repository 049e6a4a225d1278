package simulate

import (
	"cmp"
	"slices"
	"time"
)

// maxPoints is how many points a series has at most.
const maxPoints = 512

// point is what happened in one step of a series: how many requests there were, how many
// of them are limited, and how many are by the current rules.
type point struct{ requests, limited, current int64 }

// series counts over time in a fixed number of steps. They become twice as long whenever
// the time does not fit.
type series struct {
	start  int64 // microseconds
	step   int64
	points []point
}

func newSeries(start int64) series {
	return series{start: start / second * second, step: second}
}

// at returns the point of a time, which is not before the start.
func (s *series) at(micros int64) *point {
	i := (micros - s.start) / s.step
	for i >= maxPoints {
		s.double()
		i = (micros - s.start) / s.step
	}
	for int64(len(s.points)) <= i {
		s.points = append(s.points, point{})
	}
	return &s.points[i]
}

// double joins every two points.
func (s *series) double() {
	joined := s.points[:0]
	for i := 0; i < len(s.points); i += 2 {
		p := s.points[i]
		if i+1 < len(s.points) {
			q := s.points[i+1]
			p = point{p.requests + q.requests, p.limited + q.limited, p.current + q.current}
		}
		joined = append(joined, p)
	}
	s.points, s.step = joined, 2*s.step
}

// cover makes the series reach a time.
func (s *series) cover(micros int64) { s.at(micros) }

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
