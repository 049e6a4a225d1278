package check_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// faulty is a ledger that can be away, or lose its answers.
type faulty struct {
	mu         sync.Mutex
	away, mute bool
	half       bool          // away for receipts with an odd id, as of one shard of two
	slow       time.Duration // how long an answer takes
	spent      map[receipt.ID]string
	calls      int
}

var errLedgerAway = errors.New("connection refused")

func (f *faulty) Spend(ctx context.Context, id receipt.ID, _, call string, _ time.Duration) (bool, error) {
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	if background.Sleep(ctx, slow) != nil {
		return false, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.away || f.half && id[0]%2 == 1 {
		return false, errLedgerAway
	}
	if f.spent[id] == "" {
		f.spent[id] = call
	}
	if f.mute {
		return false, errLedgerAway
	}
	return f.spent[id] == call, nil
}

func (f *faulty) set(away, mute bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.mute = away, mute
}

// outage is a desk whose ledger can be away.
type outage struct {
	*desk
	*faulty
	log testenv.LogBuffer
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	engine := fluxgate.Must(fluxgate.New(newStore(t), fluxgate.Static(fluxgate.Must(rules.NewSet("api", list...)),
		fluxgate.Must(rules.NewSet("other", rules.Rule{ID: "all", Bands: []rules.Band{rules.PerHour(100)}}))),
		fluxgate.WithRuleSet("api")))
	o := &outage{faulty: &faulty{spent: map[receipt.ID]string{}}}
	o.desk = deskWith(t, engine, engine, o.faulty, slog.New(slog.NewTextHandler(&o.log, nil)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); o.api.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return o
}

// settle settles a receipt and compares the answer.
func (o *outage) settle(token string, actual, status int, body string) {
	o.Helper()
	if w := o.post("/v1/settle", settleBody(token, actual)); w.Code != status || body != "" && w.Body.String() != body {
		o.Errorf("settled: %d %s, want %d %s", w.Code, w.Body, status, body)
	}
}

const queued = `{"returned":0,"charged":0,"queued":true}`

func (o *outage) waitSettled() {
	o.Helper()
	testenv.Eventually(o, "no settlement waits", func() bool { n, _ := o.api.Waiting(); return n == 0 })
}

// A ledger that answers later than callers wait, such as over a new connection to a Redis that
// is far away, settles what waits.
func TestSettle_SlowLedger(t *testing.T) {
	o := newOutage(t)
	token := o.token(`{"userId":"ann","cost":3}`)
	o.set(true, false)
	o.settle(token, 1, http.StatusOK, queued)
	o.mu.Lock()
	o.away, o.slow = false, 1500*time.Millisecond
	o.mu.Unlock()
	o.waitSettled()
	if got, want := o.left(), [3]int64{9, 99, 2}; got != want {
		t.Errorf("left %v, want %v", got, want)
	}
}

// A settlement waits while the ledger is away, also if it loses its answer to a call that has
// spent the receipt. It is settled once.
func TestSettle_LedgerAway(t *testing.T) {
	for name, mute := range map[string]bool{"away": false, "mute": true} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t)
			token := o.token(`{"userId":"ann","cost":3}`)
			o.set(!mute, mute)
			o.settle(token, 1, http.StatusOK, queued)
			o.settle(token, 0, http.StatusConflict, "")
			if got, want := o.left(), [3]int64{7, 97, 0}; got != want {
				t.Errorf("left %v while it waits, want %v", got, want)
			}
			if n, lost := o.api.Waiting(); n != 2 || lost != 0 { // one of each rule
				t.Errorf("%d wait and %d are lost, want 2 and 0", n, lost)
			}
			o.set(false, false)
			o.waitSettled()
			if got, want := o.left(), [3]int64{9, 99, 2}; got != want {
				t.Errorf("left %v, want %v", got, want)
			}
			o.settle(token, 0, http.StatusConflict, "")
			o.settle(o.token(`{"userId":"bob"}`), 1, http.StatusOK, `{"returned":0,"charged":0}`)
		})
	}
}

// A usage that waits has the measures of its receipt in the answer.
func TestSettle_UsageWaits(t *testing.T) {
	o := newOutage(t)
	token := o.token(`{"userId":"ann","cost":3}`)
	o.set(true, false)
	w := o.post("/v1/settle", fmt.Sprintf(`{"receipt":%q,"usage":{"costs":{"requests":2}}}`, token))
	if want := `{"measures":{"requests":{"returned":0,"charged":0}},"queued":true}`; w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	o.set(false, false)
	o.waitSettled()
	if got, want := o.left(), [3]int64{8, 98, 1}; got != want {
		t.Errorf("left %v, want %v", got, want)
	}
}

// A receipt that another server has settled meanwhile is not settled again.
func TestSettle_SpentElsewhere(t *testing.T) {
	o := newOutage(t)
	token := o.token(`{"userId":"ann","cost":3}`)
	o.set(true, false)
	o.settle(token, 0, http.StatusOK, queued)
	claim, err := o.issuer.Claim(token, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	o.spent[claim.ID] = claim.Call
	o.mu.Unlock()
	o.set(false, false)
	o.waitSettled()
	if got, want := o.left(), [3]int64{7, 97, 0}; got != want {
		t.Errorf("left %v, want %v", got, want)
	}
	if _, lost := o.api.Waiting(); lost != 0 {
		t.Errorf("%d are lost", lost)
	}
}

// A receipt that expires while it waits is lost, which is counted and logged.
func TestSettle_ExpiresWaiting(t *testing.T) {
	o := newOutage(t)
	token := o.token(`{"userId":"ann","cost":3}`)
	o.set(true, false)
	o.settle(token, 0, http.StatusOK, queued)
	o.ahead.Store(int64(2 * time.Minute))
	o.waitSettled()
	if _, lost := o.api.Waiting(); lost != 2 { // one of each rule
		t.Errorf("%d are lost, want 2", lost)
	}
	o.set(false, false)
	if got, want := o.left(), [3]int64{7, 97, 0}; got != want {
		t.Errorf("left %v, want %v", got, want)
	}
	o.settle(o.token(`{"userId":"bob"}`), 1, http.StatusOK, "") // waits for the ledger once more
	o.waitSettled()
}

// While the ledger answers for some receipts only, as a cluster without one of its shards, the
// settlements of others do not wait for it.
func TestSettle_HalfOfLedgerAway(t *testing.T) {
	o := newOutage(t)
	o.mu.Lock()
	o.half = true
	o.mu.Unlock()
	const settled = `{"returned":0,"charged":0}`
	waiting := 0
	wait := func() {
		token := o.issueOf(1)
		waiting += len(fluxgate.Must(o.issuer.Claim(token, func(string) bool { return true })).Receipt.Takes)
		o.settle(token, 1, http.StatusOK, queued)
	}
	for range 2 * manySilences {
		wait()
		o.settle(o.issueOf(0), 1, http.StatusOK, settled)
	}
	for range manySilences {
		wait()
	}
	for range 50 {
		o.settle(o.issueOf(0), 1, http.StatusOK, "")
	}
	testenv.Eventually(t, "only settlements without an answer wait", func() bool { n, _ := o.api.Waiting(); return n == int64(waiting) })
	o.settle(o.issueOf(0), 1, http.StatusOK, settled)
	o.mu.Lock()
	o.half = false
	o.mu.Unlock()
	o.waitSettled()
	if _, lost := o.api.Waiting(); lost != 0 {
		t.Errorf("%d are lost", lost)
	}
}

// manySilences is more calls without an answer in a row than one after which settlements wait.
const manySilences = 10

// issueOf is a receipt with an even or an odd id.
func (o *outage) issueOf(odd byte) string {
	for {
		token := o.issue("api")
		if fluxgate.Must(o.issuer.Claim(token, func(string) bool { return true })).ID[0]%2 == odd {
			return token
		}
	}
}

// issue is a receipt of a rule set.
func (o *outage) issue(ruleSet string) string {
	band := fluxgate.Must(rules.PerHour(100).Exact(0))
	return o.issuer.Issue(&fluxgate.Receipt{Takes: store.Takes{{Key: store.Key{RuleSet: ruleSet, Rule: "all"}, Bands: []store.ExactBand{band}, Cost: 1, Asked: 1}}})
}

// A rule set has at most half of the room, and others have some left. What has no room is to be
// sent again, and the ledger that does not answer is not asked for each.
func TestSettle_Room(t *testing.T) {
	o := newOutage(t)
	o.set(true, false)
	for _, c := range []struct {
		ruleSet string
		room    int
	}{{"api", 5_000}, {"other", 2_500}} {
		for range c.room {
			o.settle(o.issue(c.ruleSet), 0, http.StatusOK, queued)
		}
		w := o.post("/v1/settle", settleBody(o.issue(c.ruleSet), 0))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s, Retry-After %q", c.ruleSet, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
	}
	o.mu.Lock()
	if o.calls > 1_000 {
		t.Errorf("the ledger was called %d times while it was away", o.calls)
	}
	o.mu.Unlock()
	o.set(false, false)
	o.waitSettled()
	if n, lost := o.api.Waiting(); n != 0 || lost != 0 {
		t.Errorf("%d wait and %d are lost", n, lost)
	}
	testenv.Eventually(t, "the end is logged", func() bool { return strings.Contains(o.log.String(), "sent=7500 lost=0") })
	if n := strings.Count(o.log.String(), "settlements wait"); n != 1 {
		t.Errorf("%d lines say that settlements wait: %s", n, o.log.String())
	}
}
