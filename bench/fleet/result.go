package fleet

import "time"

// Result is what a simulation measured.
type Result struct {
	Scenario
	Masters   int
	Decisions float64 // of the store, a second
	Shared    float64 // those about the limit that all callers share
	Busiest   float64 // those of the busiest master
	// Memory and Failed are the parts of the requests that were decided from memory, and
	// that were not decided because a master was overloaded.
	Memory, Failed float64
	// Utilisation is how many requests were admitted, as a part of what an ideal store
	// admits, and Lowest the least of it in a span.
	Utilisation, Lowest float64
	// Over and OverCaller are the most that was admitted beyond the shared limit, and
	// beyond that of a caller.
	Over, OverCaller time.Duration
	P50, P99         time.Duration // of the time of a decision
}

func (s *simulation) result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	r := Result{Scenario: s.Scenario, Masters: len(s.store.masters), Lowest: 1}
	for _, m := range s.store.masters {
		perSecond := float64(m.decisions) / s.Measured.Seconds()
		r.Decisions, r.Busiest = r.Decisions+perSecond, max(r.Busiest, perSecond)
	}
	r.Shared = float64(s.store.shared) / s.Measured.Seconds()
	sent := 0
	for _, n := range s.times {
		sent += n
	}
	r.Memory, r.Failed = float64(s.memory)/float64(sent), float64(s.failed)/float64(sent)
	ideal, actual := 0, 0
	for i := int(warmUp / span); i < int((warmUp+s.Measured)/span); i++ {
		ideal, actual = ideal+s.ideal.spans[i], actual+s.actual.spans[i]
		r.Lowest = min(r.Lowest, float64(s.actual.spans[i])/float64(s.ideal.spans[i]))
	}
	r.Utilisation = float64(actual) / float64(ideal)
	over, overCaller := s.actual.over()
	r.Over, r.OverCaller = over.Round(tick), overCaller.Round(tick)
	r.P50, r.P99 = s.percentile(sent/2), s.percentile(sent*99/100)
	return r
}

// percentile is the time in which n requests were decided.
func (s *simulation) percentile(n int) time.Duration {
	for i, of := range s.times {
		if n -= of; n < 0 {
			return time.Duration(i) * tick
		}
	}
	return deadline
}
