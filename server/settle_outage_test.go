package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// wantEventually compares what a user has left at a server that has Redis again.
func wantEventually(t testing.TB, r *running, user string, want budget) {
	t.Helper()
	c := connect(t, r.url)
	testenv.Eventually(t, fmt.Sprintf("%s has %v left", user, want), func() bool {
		d, err := c.Check(t.Context(), &fluxgate.Request{UserID: user, Peek: true})
		return err == nil && !d.Degraded && maps.Equal(left(t, c, user), want)
	})
}

// Settlements that are sent while Redis is away, or does not answer, wait in the servers and
// count once when it answers, also those that were sent twice.
func TestSettle_RedisAway(t *testing.T) {
	const receipts = 5
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	settings := budgetSettings(t, "redis://"+proxy.Addr(), userBudget, shortTimeout)
	servers := []*running{start(t, settings...), start(t, settings...)}
	for user, fault := range map[string]struct{ begin, end func() }{
		"refused": {func() { proxy.Refuse(); proxy.Cut() }, func() {
			if err := proxy.Accept(); err != nil {
				t.Error(err)
			}
		}},
		"silent": {func() { proxy.SwallowReplies(true) }, proxy.Cut},
	} {
		t.Run(user, func(t *testing.T) {
			var taken []string
			for range receipts {
				taken = append(taken, servers[0].take(t, strings.Replace(estimated, "ann", user, 1)))
			}
			fault.begin()
			for i, receipt := range taken {
				a := servers[0].settle(t, receipt, usage)
				if want := `{"measures":{"requests":{"returned":0,"charged":0},"tokens":{"returned":0,"charged":0},"usd":{"returned":0,"charged":0}},"queued":true}`; a.status != http.StatusOK || a.body != want {
					t.Errorf("settled: %d %s", a.status, a.body)
				}
				if a := servers[0].settle(t, receipt, `,"actual":0`); a.status != http.StatusConflict {
					t.Errorf("settled again: %d %s", a.status, a.body)
				}
				if a := servers[1].settle(t, receipt, usage); i == 0 && a.status != http.StatusOK {
					t.Errorf("settled at another server: %d %s", a.status, a.body)
				}
			}
			if servers[0].metric(t, "fluxgate_fallback_pending_settlements") != fmt.Sprint(receipts*budgetRules) {
				t.Error("settlements that wait are not counted")
			}
			testenv.Eventually(t, "health says that settlements wait", func() bool {
				return strings.Contains(servers[0].do(t, http.MethodGet, "/v1/health", "").body, fmt.Sprint(receipts*budgetRules, " settlements wait"))
			})
			fault.end()
			for _, r := range servers {
				testenv.Eventually(t, "no settlement waits", func() bool { return r.metric(t, "fluxgate_fallback_pending_settlements") == "0" })
				if r.metric(t, "fluxgate_fallback_lost_settlements_total") != "0" {
					t.Error("settlements are lost")
				}
				wantEventually(t, r, user, budget{"requests": 100 - receipts, "tokens": 10_000 - 120*receipts, "usd": 100_000 - 27*receipts})
			}
			if a := servers[0].settle(t, taken[0], usage); a.status != http.StatusConflict {
				t.Errorf("settled afterwards: %d %s", a.status, a.body)
			}
		})
	}
}

// A server that stops says how many settlements it has lost, and sends those that it can.
func TestSettle_StopsWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		back   bool
		failed int // requests before: the store is asked again a while after the ledger of receipts
	}{"Redis stays away": {}, "Redis answers": {back: true}, "Redis answers after many failures": {back: true, failed: 200}} {
		t.Run(name, func(t *testing.T) {
			back := c.back
			redis := testenv.StartStandalone(t, testenv.Config{})
			proxy := testenv.StartProxy(t, redis.Addr())
			settings := budgetSettings(t, "redis://"+proxy.Addr(), userBudget, shortTimeout)
			r, log := startLogged(t, settings...)
			other := start(t, append(settings, "redis.uri="+redis.URI())...)
			receipt := r.take(t, estimated)
			proxy.Refuse()
			proxy.Cut()
			for range c.failed {
				_ = r.do(t, http.MethodPost, "/v1/check", `{"userId":"bob"}`)
			}
			if a := r.settle(t, receipt, usage); a.status != http.StatusOK {
				t.Fatalf("settled: %d %s", a.status, a.body)
			}
			if back {
				if err := proxy.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			r.end(t)
			want := budget{"requests": 99, "tokens": 9_800, "usd": 99_895}
			if back {
				want = budget{"requests": 99, "tokens": 9_880, "usd": 99_973}
			}
			wantLeft(t, "ann", "after the server has stopped", want, other)
			if said := strings.Contains(log.String(), "settlements are lost") && strings.Contains(log.String(), fmt.Sprint("settlements=", budgetRules)); said == back {
				t.Errorf("the log says that settlements are lost: %t\n%s", said, log)
			}
		})
	}
}

// Settlements that find no room are counted in a line of the log, which says why.
func TestSettle_NoRoomLog(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	r, log := startLogged(t, budgetSettings(t, "redis://"+proxy.Addr(), userBudget, shortTimeout)...)
	var taken []string
	for range 48 {
		taken = append(taken, r.take(t, estimated))
	}
	proxy.Refuse()
	proxy.Cut()
	large := fmt.Sprintf(`,"usage":{"costs":{"usd":1,%q:1}}`, strings.Repeat("x", 500<<10))
	refused, began := 0, time.Now()
	for _, receipt := range taken {
		switch a := r.settle(t, receipt, large); a.status {
		case http.StatusOK:
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Fatalf("settled: %d %s", a.status, a.body)
		}
	}
	if refused < 10 {
		t.Fatalf("%d of %d found no room", refused, len(taken))
	}
	lines, seconds := log.Lines("request failed"), int(time.Since(began).Seconds())
	if len(lines) == 0 || len(lines) > seconds+1 {
		t.Errorf("%d lines for %d settlements without room in %d s", len(lines), refused, seconds)
	}
	for _, want := range []string{"too many settlements wait", `endpoint="POST /v1/settle"`} {
		if len(lines) > 0 && !strings.Contains(lines[0], want) {
			t.Errorf("the line has no %s: %s", want, lines[0])
		}
	}
}
