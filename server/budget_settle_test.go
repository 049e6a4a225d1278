package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// take checks a request and returns its receipt.
func (r *running) take(t testing.TB, body string) (receipt string) {
	t.Helper()
	a := r.do(t, http.MethodPost, "/v1/check", body)
	receipt, _ = a.object(t)["receipt"].(string)
	if a.status != http.StatusOK || receipt == "" {
		t.Fatalf("%s: %d %s", body, a.status, a.body)
	}
	return receipt
}

// settle settles a receipt: with is the rest of the body.
func (r *running) settle(t testing.TB, receipt, with string) answer {
	t.Helper()
	return r.do(t, http.MethodPost, "/v1/settle", fmt.Sprintf(`{"receipt":%q%s}`, receipt, with))
}

// startShared starts servers that share Redis, receipts and the budget of every user.
func startShared(t *testing.T, n int, others ...string) (servers []*running) {
	t.Helper()
	settings := budgetSettings(t, testenv.StartStandalone(t, testenv.Config{}).URI(), userBudget, others...)
	for range n {
		servers = append(servers, start(t, settings...))
	}
	return servers
}

// budgetRules is how many rules a receipt is taken from: settlements count for each.
const budgetRules = 3

var userBudget = budget{"requests": 100, "tokens": 10_000, "usd": 100_000}

const (
	estimated = `{"userId":"ann","estimate":{"model":"small","inputTokens":100,"maxOutputTokens":100}}`
	usage     = `,"usage":{"inputTokens":100,"outputTokens":20}`
)

// wantLeft compares what a user has left, read at every server.
func wantLeft(t testing.TB, user, when string, want budget, servers ...*running) {
	t.Helper()
	for i, r := range servers {
		if got := left(t, connect(t, r.url), user); !maps.Equal(got, want) {
			t.Errorf("%s %s: %v left at server %d, want %v", user, when, got, i, want)
		}
	}
}

// A receipt that is settled at two servers at once, and again, is settled once.
func TestBudget_SettledTwice(t *testing.T) {
	const receipts = 20
	servers := startShared(t, 2)
	for i := range receipts {
		receipt := servers[i%2].take(t, estimated)
		statuses := make([]int, len(servers))
		var all sync.WaitGroup
		for k, r := range servers {
			all.Go(func() { statuses[k] = r.settle(t, receipt, usage).status })
		}
		all.Wait()
		slices.Sort(statuses)
		if !slices.Equal(statuses, []int{http.StatusOK, http.StatusConflict}) {
			t.Fatalf("settled at once: %d", statuses)
		}
		if a := servers[i/2%2].settle(t, receipt, `,"actual":0`); a.status != http.StatusConflict {
			t.Errorf("withdrawn after it was settled: %d %s", a.status, a.body)
		}
	}
	// 100 tokens of the prompt and 20 of the answer are 27 millionths.
	wantLeft(t, "ann", "has settled", budget{"requests": 100 - receipts, "tokens": 10_000 - 120*receipts, "usd": 100_000 - 27*receipts}, servers...)
}

// A receipt that has expired changes nothing: its request stays charged at the estimate.
func TestBudget_SettledLate(t *testing.T) {
	servers := startShared(t, 2, "settle.receipt-ttl=1s")
	receipt := servers[0].take(t, estimated)
	time.Sleep(1100 * time.Millisecond) // until then it can be settled
	for _, r := range servers {
		for _, with := range []string{usage, `,"actual":0`} {
			if a := r.settle(t, receipt, with); a.status != http.StatusGone {
				t.Errorf("settled late: %d %s", a.status, a.body)
			}
		}
	}
	// 100 tokens of the prompt and 100 for reasoning are 105 millionths.
	wantLeft(t, "ann", "has settled late", budget{"requests": 99, "tokens": 9_800, "usd": 99_895}, servers...)
}

// large makes a body too large to be kept after it is decoded.
var large = strings.Repeat(" ", 17_000)

// A settlement that cannot be is refused, and its receipt can be settled afterwards.
func TestSettle_Malformed(t *testing.T) {
	r := startShared(t, 1)[0]
	receipt := r.take(t, estimated)
	for _, with := range []string{
		``, `,"usage":null`, `,"actual":null,"usage":null`, `,"actual":1` + usage, `,"actual":0,"usage":{}`, `,"usage":{}`, `,"usage": { }`,
		`,"actual":-1`, `,"usage":{"inputTokens":-1}`, `,"usage":{"outputTokens":-1}`, `,"usage":{"cachedInputTokens":-1}`,
		`,"usage":{"reasoningTokens":-1}`, `,"usage":{"costs":{"tokens":-1}}`, `,"usage":{"costs":{"images":-1}}`,
		`,"usage":{"inputTokens":1,"cachedInputTokens":2}`, `,"usage":{"outputTokens":1,"reasoningTokens":2}`,
		`,"usage":{"input_tokens":1}`, `,"usage":{"totalTokens":1}`, `,"usages":{}`,
		`,"usage":{"inputTokens":9223372036854775808}`, `,"usage":{"inputTokens":1.5}`, `,"usage":{"inputTokens":1e400}`,
		`,"usage":{"inputTokens":"1"}`, `,"usage":{"costs":{"tokens":9223372036854775808}}`, `,"usage":[]`, `,"usage":1`,
		`,"actual":9223372036854775808`,
		`,"usage":{"inputTokens":null}`, `,"usage":{"costs":null}`, `,"usage":{"costs":{}}`, `,"usage":{"costs":{"tokens":null}}`,
		`,"usage":{"inputTokens":0},"usage":{"inputTokens":null}`, `,"usage":{}` + large, `,"usage":{"costs":{}}` + large,
	} {
		if a := r.settle(t, receipt, with); a.status != http.StatusBadRequest || !strings.Contains(a.header.Get("Content-Type"), "problem+json") {
			t.Errorf("settled with %.80s: %d %s", with, a.status, a.body)
		}
	}
	wantLeft(t, "ann", "has settled nothing", budget{"requests": 99, "tokens": 9_800, "usd": 99_895}, r)
	if a := r.settle(t, receipt, usage); a.status != http.StatusOK {
		t.Errorf("settled after that: %d %s", a.status, a.body)
	}
	wantLeft(t, "ann", "has settled", budget{"requests": 99, "tokens": 9_880, "usd": 99_973}, r)
}

// A usage needs one number, which may be 0. Null and empty costs are absent.
func TestSettle_SparseUsage(t *testing.T) {
	r := startShared(t, 1)[0]
	for i, c := range []struct {
		usage       string
		tokens, usd int64 // that are charged in the end
	}{
		{`{"inputTokens":0}`, 0, 0},
		{`{"reasoningTokens":0,"costs":null}`, 0, 0},
		{`{"costs":{"tokens":0}}`, 0, 105},
		{`{"costs":{"tokens":0,"usd":null}}`, 0, 105},
		{`{"inputTokens":100,"outputTokens":20,"cachedInputTokens":null,"costs":{}}`, 120, 27},
		{`{"inputTokens":100,"outputTokens":20,"costs":{"usd":null}}`, 120, 27},
	} {
		for j, space := range []string{"", large} {
			user := fmt.Sprintf("sparse-%d-%d", i, j)
			receipt := r.take(t, strings.Replace(estimated, "ann", user, 1))
			if a := r.settle(t, receipt, `,"usage":`+c.usage+space); a.status != http.StatusOK {
				t.Errorf("settled with %s and %d spaces: %d %s", c.usage, len(space), a.status, a.body)
			}
			wantLeft(t, user, "has used "+c.usage, budget{"requests": 99, "tokens": 10_000 - c.tokens, "usd": 100_000 - c.usd}, r)
		}
	}
}

// A usage up to the largest charges debt of at most the capacity, in Redis and in memory.
func TestSettle_LargestUsage(t *testing.T) {
	memory := start(t, budgetSettings(t, "redis://localhost", userBudget, "redis.enabled=false")...)
	for name, r := range map[string]*running{"Redis": startShared(t, 1)[0], "memory": memory} {
		for i, n := range []int64{1_000_000, 1 << 52, store.MaxCost} {
			user := fmt.Sprintf("tokens-%d", i)
			receipt := r.take(t, fmt.Sprintf(`{"userId":%q,"estimate":{"model":"large","inputTokens":100,"maxOutputTokens":100}}`, user))
			a := r.settle(t, receipt, fmt.Sprintf(`,"usage":{"inputTokens":%d,"cachedInputTokens":1,"outputTokens":%[1]d,"reasoningTokens":%[1]d}`, n))
			if want := `{"measures":{"requests":{"returned":0,"charged":0},"tokens":{"returned":0,"charged":19800},"usd":{"returned":0,"charged":198550}}}`; a.status != http.StatusOK || a.body != want {
				t.Errorf("%s, %d tokens: %d %s, want %s", name, n, a.status, a.body, want)
			}
			wantLeft(t, user, "is in debt in "+name, budget{"requests": 99, "tokens": -10_000, "usd": -100_000}, r)

			// Costs replace what tokens cost, and requests have costs too.
			user = fmt.Sprintf("costs-%d", i)
			receipt = r.take(t, fmt.Sprintf(`{"userId":%q}`, user))
			a = r.settle(t, receipt, fmt.Sprintf(`,"usage":{"inputTokens":1,"costs":{"requests":%d,"tokens":%[1]d,"usd":%[1]d}}`, n))
			if want := `{"measures":{"requests":{"returned":0,"charged":199},"tokens":{"returned":0,"charged":19999},"usd":{"returned":0,"charged":199999}}}`; a.status != http.StatusOK || a.body != want {
				t.Errorf("%s, costs of %d: %d %s, want %s", name, n, a.status, a.body, want)
			}
			wantLeft(t, user, "is in debt in "+name, budget{"requests": -100, "tokens": -10_000, "usd": -100_000}, r)
		}
	}
}
