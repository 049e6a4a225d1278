package benchmarks

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/ideal"
	"github.com/fluxgate/fluxgate/rules"
)

// The measures of correctness, in tokens.
const (
	measureOver   = "over_admitted"
	measureDue    = "due_refused"
	measureLeaked = "leaked"
)

// pause is that of a caller after a refusal. It is much shorter than the time in which
// a token comes back.
const pause = 2 * time.Millisecond

// answer is the decision about one request of one caller.
type answer struct {
	sent, answered time.Duration // since the caller began
	admitted       bool
}

// saturate has callers ask for more than their limit, each with its own bucket, and
// returns the worst of them. They begin at times spread over a second, because limiters
// with windows depend on it.
func (m *measurement) saturate(w *workload, s size) map[string]float64 {
	m.Helper()
	answers := make([][]answer, s.phases)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			time.Sleep(time.Second * time.Duration(i) / time.Duration(s.phases))
			key := m.prefix + fmt.Sprint(i)
			for start := time.Now(); time.Since(start) < s.saturated; {
				sent := time.Since(start)
				ok, err := m.allow(m.Context(), w, key)
				if err != nil {
					m.Errorf("%s: %v", m.name, err)
					return
				}
				answers[i] = append(answers[i], answer{sent, time.Since(start), ok})
				if !ok {
					time.Sleep(pause)
				}
			}
		})
	}
	all.Wait()
	worst := map[string]float64{}
	for _, a := range answers {
		worst[measureOver] = max(worst[measureOver], float64(overAdmitted(w.limits[0], a)))
		worst[measureDue] = max(worst[measureDue], float64(dueRefused(w.limits[0], a)))
	}
	return worst
}

// overAdmitted is by how many tokens the admissions exceed what the limit allows in the
// interval where they exceed it most. An interval is from before its first request was
// sent until its last was answered, so that no correct limiter exceeds it.
func overAdmitted(l limit, answers []answer) int64 {
	perNano := float64(l.tokens) / float64(l.period)
	most := math.Inf(-1) // of refill at the first request − admissions before it
	admitted, over := int64(0), int64(0)
	for _, a := range answers {
		if !a.admitted {
			continue
		}
		most = max(most, float64(a.sent)*perNano-float64(admitted))
		admitted++
		// The number of admissions − the refill between the first and this request.
		excess := float64(admitted) - float64(a.answered)*perNano + most - float64(l.tokens)
		over = max(over, int64(math.Ceil(excess-1e-6)))
	}
	return over
}

// dueRefused is how many tokens more an ideal bucket would have given to the same
// requests. Where the bucket is full, the time of its first take is that of the answer,
// so that no correct limiter has given less.
func dueRefused(l limit, answers []answer) int64 {
	bucket := ideal.New(fluxgate.Must(rules.Band{Capacity: l.tokens, Refill: l.period}.Exact(0)), 0)
	due, at := int64(0), int64(0)
	for _, a := range answers {
		at = max(at, a.sent.Microseconds()-1) // the rounding of times is to its disadvantage too
		bucket.Advance(at)
		if bucket.Full() {
			at = a.answered.Microseconds()
			bucket.Advance(at)
		}
		if bucket.Wait(1) == 0 {
			bucket.Take(1)
			due++
		}
		if a.admitted {
			due--
		}
	}
	return max(0, due)
}

// leaked is how many tokens rejected requests have taken. A request needs a token of its
// caller and one of its tenant.
//
// First a caller is over its limit: its rejected requests must leave the tokens of the
// tenant to other callers. Then the tenant is over its limit: the rejected requests of
// another caller must leave it its own tokens, which it spends under another tenant.
func (m *measurement) leaked(w *workload) (tokens int64) {
	m.Helper()
	ofCaller, ofTenant := w.limits[0].tokens, w.limits[1].tokens
	tenant := m.prefix + "tenant"
	admitted := func(requests int64, keys func(i int64) (caller, tenant string)) (n int64) {
		m.Helper()
		for i := range requests {
			caller, tenant := keys(i)
			if m.decide(w, caller, tenant) {
				n++
			}
		}
		return n
	}
	noisy := admitted(ofCaller+rejections, func(int64) (string, string) { return m.prefix + "noisy", tenant })
	others := admitted(ofTenant, func(i int64) (string, string) { return m.prefix + fmt.Sprint(i), tenant })
	if noisy != ofCaller {
		m.Errorf("%s: a caller with %d tokens was admitted %d times", m.name, ofCaller, noisy)
	}
	tokens = max(0, ofTenant-noisy-others)
	late := m.prefix + "late"
	if n := admitted(rejections, func(int64) (string, string) { return late, tenant }); n > 0 {
		m.Errorf("%s: the tenant has no tokens, and %d requests were admitted", m.name, n)
	}
	return tokens + max(0, ofCaller-admitted(ofCaller, func(int64) (string, string) { return late, tenant + "-2" }))
}

// rejections are how many requests each of the two limits rejects.
const rejections = 100
