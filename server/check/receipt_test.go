package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// token is the receipt of a check.
func (d *desk) token(body string) string {
	d.Helper()
	var answer struct {
		Allowed bool
		Receipt string
	}
	w := d.post("/v1/check", body)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || !answer.Allowed || answer.Receipt == "" {
		d.Fatalf("%v: %s", err, w.Body)
	}
	return answer.Receipt
}

func settleBody(token string, actual int) string {
	return fmt.Sprintf(`{"receipt":%q,"actual":%d}`, token, actual)
}

// A receipt is settled.
func TestSettle_Receipt(t *testing.T) {
	d := newDesk(t, newStore(t))
	for _, c := range []struct {
		cost, actual int
		want         string
		left         [3]int64
	}{
		{3, 1, `{"returned":2,"charged":0}`, [3]int64{9, 99, 2}},
		{1, 3, `{"returned":0,"charged":2}`, [3]int64{6, 96, 0}},
	} {
		token := d.token(fmt.Sprintf(`{"userId":"ann","cost":%d}`, c.cost))
		if w := d.post("/v1/settle", settleBody(token, c.actual)); w.Code != 200 || w.Body.String() != c.want {
			t.Errorf("%d to %d: %d %s", c.cost, c.actual, w.Code, w.Body)
		}
		if got := d.left(); got != c.left {
			t.Errorf("left %v, want %v", got, c.left)
		}
	}
}

// An actual cost that no store settles is refused, and the receipt is not used up.
func TestSettle_AboveLargest(t *testing.T) {
	d := newDesk(t, newStore(t))
	token := d.token(`{"userId":"ann","cost":3}`)
	for _, actual := range []int{store.MaxCost + 1, 1 << 60, math.MaxInt64} {
		if w := d.post("/v1/settle", settleBody(token, actual)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at most 9007199254740992") {
			t.Errorf("%d: %d %s", actual, w.Code, w.Body)
		}
	}
	if w := d.post("/v1/settle", settleBody(token, 1)); w.Code != 200 || d.left() != [3]int64{9, 99, 2} {
		t.Errorf("%d %s, left %v", w.Code, w.Body, d.left())
	}
}

// full is a ledger that has no room.
type full struct{}

func (full) Spend(context.Context, receipt.ID, string, string, time.Duration) (bool, error) {
	return false, receipt.ErrFull
}

// A receipt that cannot be remembered releases its slots, as often as it is sent, and
// returns no tokens.
func TestSettle_FullLedger(t *testing.T) {
	slots := rules.Band{Kind: rules.Concurrency, Capacity: 2, Hold: time.Minute}
	engine := fluxgate.Must(fluxgate.New(newStore(t), fluxgate.Static(fluxgate.Must(rules.NewSet("api",
		rules.Rule{ID: "both", Scope: rules.ScopeUser, Bands: []rules.Band{slots, {Capacity: 10, Refill: time.Hour}}},
		rules.Rule{ID: "tokens", Scope: rules.ScopeUser, Bands: []rules.Band{{Capacity: 10, Refill: time.Hour}}})))))
	d := deskWith(t, engine, engine, full{}, nil)
	first := d.token(`{"userId":"ann"}`)
	d.token(`{"userId":"ann"}`)
	if got, want := d.left(), [3]int64{0, 8, 8}; got != want {
		t.Fatalf("left %v, want %v", got, want)
	}
	for range 3 {
		if w := d.post("/v1/settle", settleBody(first, 0)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("settled: %d %s", w.Code, w.Body)
		}
		if got, want := d.left(), [3]int64{1, 8, 8}; got != want {
			t.Errorf("left %v, want %v", got, want)
		}
	}
}

// Forged, spent and expired receipts return no tokens.
func TestSettle_InvalidReceipt(t *testing.T) {
	d := newDesk(t, newStore(t))
	spent := d.token(`{"userId":"ann","cost":1}`)
	if w := d.post("/v1/settle", settleBody(spent, 1)); w.Code != 200 {
		t.Fatal(w.Body)
	}
	other := newDesk(t, newStore(t)).token(`{"userId":"ann","cost":2}`)
	expired := d.token(`{"userId":"ann","cost":2}`)
	good := d.token(`{"userId":"ann","cost":1}`)
	before := d.left()
	refuse := func(name, token string, status int) {
		t.Helper()
		for _, actual := range []int{0, 1, 1000} {
			w := d.post("/v1/settle", settleBody(token, actual))
			if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, status)
			}
			if got := d.left(); got != before {
				t.Fatalf("%s: left %v, want %v", name, got, before)
			}
		}
	}
	refuse("another server's", other, http.StatusForbidden)
	refuse("nothing", "", http.StatusForbidden)
	refuse("made up", strings.Repeat("A", 200), http.StatusForbidden)
	for i := 0; i < len(good); i += 7 {
		changed := []byte(good)
		changed[i] ^= 1
		refuse(fmt.Sprint("changed at ", i), string(changed), http.StatusForbidden)
	}
	refuse("spent", spent, http.StatusConflict)
	d.now = d.now.Add(2 * time.Minute)
	refuse("expired", expired, http.StatusGone)
	d.now = d.now.Add(-2 * time.Minute)
	if w := d.post("/v1/settle", settleBody(good, 0)); w.Code != 200 {
		t.Errorf("and the good one: %d %s", w.Code, w.Body)
	}
}

// A server with a random secret says once that receipts of other servers are not accepted.
func TestSettle_RandomSecret(t *testing.T) {
	o := newOutage(t)
	for range 2 {
		o.settle(newDesk(t, newStore(t)).token(`{"userId":"ann","cost":2}`), 1, http.StatusForbidden, "")
	}
	if n := strings.Count(o.log.String(), "settle.receipt-secret-file is not set"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, o.log.String())
	}
}

// A receipt is renewed while it holds slots, not otherwise: it could be settled again
// when it is forgotten that it was.
func TestExtend_Receipt(t *testing.T) {
	d := newDesk(t, newStore(t))
	extend := func(token string, status int) {
		t.Helper()
		w := d.post("/v1/extend", fmt.Sprintf(`{"receipt":%q}`, token))
		if w.Code != status {
			t.Errorf("%d %s, want %d", w.Code, w.Body, status)
		}
	}
	token := d.token(`{"userId":"ann","cost":1}`)
	extend(token, http.StatusConflict)
	extend(token+"A", http.StatusForbidden)
	extend(newDesk(t, newStore(t)).token(`{"userId":"ann","cost":1}`), http.StatusForbidden)
	d.now = d.now.Add(2 * time.Minute)
	extend(token, http.StatusGone)
}

// Concurrent calls settle a receipt once.
func TestSettle_ConcurrentOnce(t *testing.T) {
	d := newDesk(t, newStore(t))
	token := d.token(`{"userId":"ann","cost":3}`)
	var settled, refused atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch w := d.post("/v1/settle", settleBody(token, 0)); w.Code {
			case http.StatusOK:
				settled.Add(1)
			case http.StatusConflict:
				refused.Add(1)
			default:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if settled.Load() != 1 || refused.Load() != 15 || d.left() != [3]int64{10, 100, 3} {
		t.Errorf("settled %d times, left %v", settled.Load(), d.left())
	}
}

// A decision that took nothing has no receipt.
func TestSettle_NothingTaken(t *testing.T) {
	d := newDesk(t, newStore(t), fluxgate.WithOnFailure(rules.FailOpen))
	for _, body := range []string{`{"peek":true,"cost":1}`, `{"path":"/blocked"}`, `{"path":"/friends"}`, `{"cost":11}`, `{"ruleSet":"unknown"}`} {
		if w := d.post("/v1/check", body); w.Code != 200 || strings.Contains(w.Body.String(), "receipt") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// A caller that passes on the receipt of a decision without one learns that, and not that the
// receipt was forged.
func TestSettle_WithoutReceipt(t *testing.T) {
	d := newDesk(t, newStore(t))
	for path, body := range map[string]string{"/v1/settle": settleBody("", 0), "/v1/extend": `{"receipt":""}`} {
		if w := d.post(path, body); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "not accepted: it is empty") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
