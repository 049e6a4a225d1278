package envoy_test

import (
	"math/rand/v2"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Calls with several descriptors that FluxGate refuses count only in the limits that are
// over, and it refuses only those that a limit has no room for. envoyproxy/ratelimit counts
// them in every limit of a call, whatever the others say.
func TestSeveralDescriptors(t *testing.T) {
	testenv.SkipShort(t)
	theirs, ours := mustStart(t)
	leaked := leakedHits(t, theirs, nil)
	used := leakedHits(t, ours, func(n int, r *pb.RateLimitRequest, got, want bool) {
		if got != want {
			t.Fatalf("call %d, %v: allowed is %t, want %t", n, r, got, want)
		}
	})
	t.Logf("hits taken from refused callers: %s %d, %s %d", theirs.Name, leaked, ours.Name, used)
	if used != 0 || leaked < 100 {
		t.Errorf("%s has taken %d hits from refused callers, want 0; %s %d, want at least 100", ours.Name, used, theirs.Name, leaked)
	}
}

// leakedHits sends calls with several descriptors and returns how many hits refused ones
// have taken from limits that had room for them: what their counters lack, up to their
// limits, without the hits of calls that were allowed or over that limit. decided is called, unless it is nil, with
// what a service says and with whether every limit has room.
func leakedHits(t *testing.T, s *service, decided func(n int, r *pb.RateLimitRequest, got, want bool)) (leaked int) {
	t.Helper()
	const calls = 1_500
	random := rand.New(rand.NewPCG(16, 2))
	taken := map[string]int{} // by calls that were allowed, or over the limit
	room := map[string]int{}
	for n := range calls {
		texts := []string{fill("user=u-#"+fill("-#", random), random), fill("path=/p-#", random), "team=t-1"}
		random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		texts = texts[:2+random.IntN(2)]
		amount := 1 + random.IntN(3)
		want := true
		r := &pb.RateLimitRequest{Domain: "shop"}
		for _, text := range texts {
			if _, ok := room[text]; !ok {
				room[text] = s.remaining(t, text)
			}
			want = want && taken[text]+amount <= room[text]
			r.Descriptors = append(r.Descriptors, hits(amount, load.Descriptor(text)))
		}
		got := s.call(t, r).GetOverallCode() == ok
		if decided != nil {
			decided(n, r, got, want)
		}
		for _, text := range texts {
			if got || taken[text]+amount > room[text] {
				taken[text] += amount
			}
		}
	}
	for text := range room {
		leaked += room[text] - s.remaining(t, text) - min(taken[text], room[text])
	}
	return leaked
}

// remaining looks at what remains of the limit of a descriptor.
func (s *service) remaining(t *testing.T, text string) int {
	t.Helper()
	look := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{hits(0, load.Descriptor(text))}}
	status := s.call(t, look).GetStatuses()[0]
	if status.GetCurrentLimit() == nil {
		t.Fatalf("%s has no limit for %s: %v", s.Name, text, status)
	}
	return int(status.GetLimitRemaining())
}
