package check_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// receipts differ each time.
var receipts = regexp.MustCompile(`"receipt":"[A-Za-z0-9_-]+"`)

func shown(d *desk, path, body string) string {
	w := d.post(path, body)
	answer := receipts.ReplaceAllString(w.Body.String(), `"receipt":"…"`)
	return fmt.Sprintf("POST %s\n%s\n\n%d %s\n%s\n", path, body, w.Code, w.Header().Get("Content-Type"), answer)
}

// Answers are those in testdata.
func TestCheck_Golden(t *testing.T) {
	const checking, batch, settle, compatible = "/v1/check", "/v1/check:batch", "/v1/settle", "/api/ratelimit/check"
	held := func() *desk {
		rule := rules.Rule{ID: "queue", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{{Capacity: 1, Refill: 20 * time.Millisecond}}}
		engine := fluxgate.Must(fluxgate.New(newStore(t), fluxgate.Static(fluxgate.Must(rules.NewSet("api", rule))), fluxgate.WithWaiting(time.Second, 10)))
		return deskOf(t, engine, engine)
	}
	for _, c := range []struct {
		name, path string
		desk       *desk
		before     []string
		body       string
	}{
		{name: "allowed", path: checking, body: `{"ruleSet":"api","ip":"192.0.2.1","userId":"ann","method":"GET","path":"/orders","host":"example.com","headers":{"X-Tenant":["a"]},"attributes":{"tier":"gold"},"cost":3}`},
		{name: "allowed-by-default", path: checking, body: `{}`},
		{name: "rejected", path: checking, before: []string{`{"cost":9}`}, body: `{"cost":2}`},
		{name: "cost-too-high", path: checking, body: `{"cost":11}`},
		{name: "peek", path: checking, before: []string{`{"cost":4}`}, body: `{"peek":true}`},
		{name: "denied", path: checking, body: `{"path":"/blocked"}`},
		{name: "exempt", path: checking, body: `{"path":"/friends"}`},
		{name: "missing-identity", path: checking, body: `{"path":"/keys"}`},
		{name: "descriptor", path: checking, before: []string{
			`{"userId":"ann","descriptor":[{"key":"route","value":"login"},{"key":"remote_address","value":"192.0.2.1"}]}`,
			`{"userId":"ann","descriptor":[{"key":"route","value":"login"},{"key":"remote_address","value":"192.0.2.1"}]}`,
			`{"userId":"ann","descriptor":[{"key":"route","value":"login"},{"key":"remote_address","value":"192.0.2.2"}]}`,
		}, body: `{"userId":"ann","descriptor":[{"key":"route","value":"login"},{"key":"remote_address","value":"192.0.2.1"}]}`},
		{name: "descriptor-bad", path: checking, body: `{"descriptor":[{"value":"login"}]}`},
		{name: "no-rule-set", path: checking, body: `{"ruleSet":"unknown"}`},
		{name: "unknown-rule-set", path: checking, desk: newDesk(t, newStore(t), fluxgate.WithKnownRuleSets()), body: `{"ruleSet":"unknown"}`},
		{name: "held", path: checking, desk: held(), before: []string{`{}`}, body: `{"timeoutMs":900}`},
		{name: "not-held", path: checking, desk: held(), before: []string{`{}`}, body: `{"timeoutMs":0.5}`},
		{name: "store-failure", path: checking, desk: newDesk(t, away{newStore(t)}, fluxgate.WithOnFailure(rules.FailClosed)), body: `{}`},
		{name: "store-failure-local", path: checking, desk: newDesk(t, away{newStore(t)}, fluxgate.WithFallback(newStore(t)), fluxgate.WithFallbackShare(0.5)), body: `{}`},
		{name: "batch", path: batch, body: `{"requests":[{"userId":"ann","cost":9},{"userId":"bob","path":"/blocked"},{"userId":"cat","ruleSet":"unknown"},{"cost":11}]}`},
		{name: "batch-descriptor", path: batch, body: `{"requests":[{"descriptor":[{"key":"route","value":"login"},{"key":"remote_address"}],"cost":3},{"descriptor":[` + strings.Repeat(`{"key":"k"},`, 16) + `{"key":"k"}]}]}`},
		{name: "batch-empty", path: batch, body: `{"requests":[]}`},
		{name: "batch-bad", path: batch, body: `{"requests":[{},{"ip":"here"}]}`},
		{name: "settle-forged", path: settle, body: `{"receipt":"abc","actual":0}`},
		{name: "settle-negative", path: settle, body: `{"receipt":"abc","actual":-1}`},
		{name: "compatible", path: compatible, body: `{"ruleSetId":"api","clientIp":"192.0.2.1","userId":"ann","apiKey":"k","endpoint":"/orders","method":"GET"}`},
		{name: "compatible-rejected", path: compatible, before: []string{`{"userId":"ann","cost":10}`}, body: `{"userId":"ann"}`},
		{name: "not-json", path: checking, body: `{"userId":`},
		{name: "unknown-field", path: checking, body: `{"user":"ann"}`},
		{name: "wrong-type", path: checking, body: `{"cost":"many"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.desk
			if d == nil {
				d = newDesk(t, newStore(t))
			}
			for _, body := range c.before {
				if w := d.post(checking, body); w.Code != 200 || !strings.Contains(w.Body.String(), `"allowed":true`) {
					t.Fatal(w.Body)
				}
			}
			golden(t, c.name, shown(d, c.path, c.body))
		})
	}
}

// broken is a limiter that has no decision.
type broken struct {
	check func(context.Context, *fluxgate.Request) (fluxgate.Decision, error)
}

func (b broken) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return b.check(ctx, req)
}

func (broken) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (broken) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, errors.New("redis://user:hush@h: away")
}

func (broken) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, errors.New("redis://user:hush@h: away")
}

// The answer without a decision does not contain the error.
func TestCheck_NoDecision(t *testing.T) {
	for name, c := range map[string]struct {
		check  func(context.Context, *fluxgate.Request) (fluxgate.Decision, error)
		status int
		batch  string
		failed int
	}{
		"an error": {func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
			return fluxgate.Decision{}, errors.New("redis://user:hush@h: away")
		}, 500, `{"error":"The request could not be decided.","status":500}`, 1},
		"no time": {func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
			return fluxgate.Decision{}, fmt.Errorf("hush: %w", context.DeadlineExceeded)
		}, 503, `{"error":"The request was not decided in time.","status":503}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := deskOf(t, nil, broken{c.check})
			for _, path := range []string{"/v1/check", "/api/ratelimit/check"} {
				if w := d.post(path, `{}`); w.Code != c.status || strings.Contains(w.Body.String(), "hush") || len(d.failed) != c.failed {
					t.Errorf("%s: %d %s, reported %v", path, w.Code, w.Body, d.failed)
				}
				d.failed = nil
			}
			if w := d.post("/v1/check:batch", `{"requests":[{}]}`); w.Code != 200 || w.Body.String() != `{"decisions":[`+c.batch+`]}` {
				t.Errorf("in a batch: %d %s", w.Code, w.Body)
			}
		})
	}
	t.Run("a panic in a batch", func(t *testing.T) {
		d := deskOf(t, nil, broken{func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) { panic("hush") }})
		w := d.post("/v1/check:batch", `{"requests":[{},{}]}`)
		want := `{"decisions":[{"error":"The request could not be decided.","status":500},{"error":"The request could not be decided.","status":500}]}`
		if w.Code != 200 || w.Body.String() != want || len(d.failed) != 2 {
			t.Errorf("%d %s, reported %v", w.Code, w.Body, d.failed)
		}
	})
}

// The caller's timeout is the deadline of the check.
func TestCheck_Deadline(t *testing.T) {
	var left time.Duration
	var bounded bool
	d := deskOf(t, nil, broken{func(ctx context.Context, _ *fluxgate.Request) (fluxgate.Decision, error) {
		var deadline time.Time
		deadline, bounded = ctx.Deadline()
		left = time.Until(deadline)
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, ctx.Err()
	}})
	d.post("/v1/check", `{"timeoutMs":60000.5}`)
	if !bounded || left > 60_000_500*time.Microsecond || left < 30*time.Second {
		t.Errorf("bounded %t to %v, want a minute", bounded, left)
	}
	if d.post("/v1/check", `{}`); bounded {
		t.Error("bounded without a timeout")
	}
	if w := d.post("/v1/check", `{"timeoutMs":0.001}`); w.Code != 200 {
		t.Errorf("a deadline that is over ends a decision: %d %s", w.Code, w.Body)
	}
}
