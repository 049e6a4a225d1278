package envoy_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// limits has what a configuration of envoyproxy/ratelimit can have, in units that do not
// end during a test.
const limits = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 20}
  - key: user
    value: ada
    rate_limit: {unit: day, requests_per_unit: 90}
  - key: user
    value: bot-*
    rate_limit: {unit: hour, requests_per_unit: 9}
  - key: team
    value: t-*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 150}
  - key: path
    rate_limit: {unit: hour, requests_per_unit: 50}
    descriptors:
      - key: method
        value: POST
        rate_limit: {unit: hour, requests_per_unit: 15}
  - key: path
    value: /login
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 12}
      - key: user
        value: root
        rate_limit: {unlimited: true}
      - key: user
        value: bot-*
        rate_limit: {unit: day, requests_per_unit: 0}
  - key: plan
    value: gold
    rate_limit: {unlimited: true}
  - key: plan
    rate_limit: {unit: day, requests_per_unit: 40}
  - key: trial
    rate_limit: {unit: hour, requests_per_unit: 25}
    shadow_mode: true
`

// singles are descriptors for which exact values, wildcards, keys without a value, nested
// keys, unlimited, shadow_mode and no limit apply. # is a number below 10. quota_mode is not
// among them: the version of envoyproxy/ratelimit that can be built here lets it pass in any
// case, and internal/envoyratelimit compares it with the rule of today.
var singles = []string{
	"user=u-#", "user=u-#", "user=ada", "user=bot-#", "user=", "team=t-#", "team=other",
	"path=/p-#", "path=/p-#,method=POST", "path=/p-#,method=GET", "path=/login",
	"path=/login,user=u-#", "path=/login,user=root", "path=/login,user=bot-#", "path=/login,method=POST",
	"plan=gold", "plan=free-#", "trial=#", "unknown=#", "user=u-#,plan=gold",
}

// The same calls with one descriptor have the same answers.
func TestSingleDescriptor(t *testing.T) {
	testenv.SkipShort(t)
	theirs, ours := mustStart(t)
	const calls = 5_000
	random := rand.New(rand.NewPCG(16, 1))
	codes := map[pb.RateLimitResponse_Code]int{}
	remaining := 0
	for n := range calls {
		request := single(random)
		want, got := theirs.call(t, request), ours.call(t, request)
		if err := compare(want, got); err != nil {
			t.Fatalf("call %d, %v: %v\n%s %v\n%s %v", n, request, err, theirs.Name, want, ours.Name, got)
		}
		codes[got.GetOverallCode()]++
		if got.GetStatuses()[0].GetCurrentLimit() != nil && want.GetStatuses()[0].GetCurrentLimit() != nil {
			remaining++
		}
	}
	t.Logf("%d calls, the same answers: %d OK, %d OVER_LIMIT, the limit in %d", calls, codes[ok], codes[over], remaining)
	if codes[ok] < calls/4 || codes[over] < calls/4 || remaining < calls/3 {
		t.Error("the calls compare too little")
	}
}

const (
	ok   = pb.RateLimitResponse_OK
	over = pb.RateLimitResponse_OVER_LIMIT
)

func mustStart(t *testing.T) (theirs, ours *service) {
	t.Helper()
	theirs, ours, err := start(t, limits)
	if err != nil {
		t.Fatal(err)
	}
	stayInHour(t)
	return theirs, ours
}

// stayInHour has the rest of the test run in one hour: after it, the counters of both
// begin anew, and not between the same calls.
func stayInHour(t *testing.T) {
	t.Helper()
	const enough = 2 * time.Minute
	hour := time.Now().Truncate(time.Hour).Add(time.Hour)
	if left := time.Until(hour); left < enough {
		t.Logf("waiting %v for the next hour", left)
		time.Sleep(left)
		hour = hour.Add(time.Hour)
	}
	t.Cleanup(func() {
		if !time.Now().Before(hour) {
			t.Error("an hour has ended during the test: its results mean nothing")
		}
	})
}

// single returns a random call with one descriptor. Its hits are those of the request or
// of the descriptor.
func single(random *rand.Rand) *pb.RateLimitRequest {
	text := fill(singles[random.IntN(len(singles))], random)
	d := load.Descriptor(text)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	r := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{d}}
	switch n := 1 + sum.Sum32()%5; {
	case text[:4] == "team":
		// Its values count together.
	case random.IntN(2) == 0:
		r.HitsAddend = n
	default:
		hits(int(n), d)
		r.HitsAddend = 1_000 // is not used
	}
	return r
}

// compare reports how an answer differs: in a code, and in what remains of the limit
// unless the call is over it. There envoyproxy/ratelimit says 0, and FluxGate what a call
// with fewer hits could take.
func compare(want, got *pb.RateLimitResponse) error {
	w, g := want.GetStatuses()[0], got.GetStatuses()[0]
	switch {
	case got.GetOverallCode() != want.GetOverallCode() || g.GetCode() != w.GetCode():
		return fmt.Errorf("%v and %v, want %v and %v", got.GetOverallCode(), g.GetCode(), want.GetOverallCode(), w.GetCode())
	case g.GetCurrentLimit() == nil || w.GetCurrentLimit() == nil:
		return nil
	case g.GetCurrentLimit().GetRequestsPerUnit() != w.GetCurrentLimit().GetRequestsPerUnit() || g.GetCurrentLimit().GetUnit() != w.GetCurrentLimit().GetUnit():
		return fmt.Errorf("the limit is %v, want %v", g.GetCurrentLimit(), w.GetCurrentLimit())
	case g.GetCode() == ok && g.GetLimitRemaining() != w.GetLimitRemaining():
		return fmt.Errorf("%d remain, want %d", g.GetLimitRemaining(), w.GetLimitRemaining())
	}
	return nil
}
