package warnings_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/warnings"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// post is what a receiver got.
type post struct {
	id, signature, body string
	fields              map[string]any
}

// receiver is a webhook. answer may be nil for status 200.
type receiver struct {
	url    string
	answer func(w http.ResponseWriter, p post, nth int)

	mu    sync.Mutex
	posts []post
	times map[string]int // by id
}

// path is a secret of the URL.
const path = "/services/T0-hidden-path"

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, p post, nth int)) *receiver {
	t.Helper()
	r := &receiver{answer: answer, times: map[string]int{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL + path
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	p := post{signature: q.Header.Get(warnings.SignatureHeader), body: string(body)}
	if err := json.Unmarshal(body, &p.fields); err != nil || q.Method != http.MethodPost || q.URL.Path != path {
		http.Error(w, "not a warning", http.StatusTeapot)
		return
	}
	p.id, _ = p.fields["id"].(string)
	r.mu.Lock()
	r.posts = append(r.posts, p)
	r.times[p.id]++
	nth := r.times[p.id]
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, p, nth)
	}
}

func (r *receiver) got() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post{}, r.posts...)
}

// counts are warnings by their results.
type counts struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counts) count(ruleSet, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]int{}
	}
	c.all[ruleSet+" "+result]++
}

func (c *counts) want(t *testing.T, want map[string]int) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprint("the counts are ", want), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return maps.Equal(c.all, want)
	})
}

// courier is a running one, with what it counts and logs.
type courier struct {
	*warnings.Courier
	counts counts
	log    testenv.LogBuffer
	stop   func()
}

func start(t *testing.T, s warnings.Store, url, secretFile string) *courier {
	t.Helper()
	c := &courier{}
	c.Courier = warnings.New(warnings.Config{
		Store: func() warnings.Store { return s }, ShowKey: func(k store.Key) string { return k.ID.String() },
		URL: url, SecretFile: secretFile, Count: c.counts.count, Logger: c.log.Logger(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(ended)
	}()
	c.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		c.stop()
		if text := c.log.String(); strings.Contains(text, "hidden") {
			t.Errorf("the log shows a secret: %s", text)
		}
	})
	return c
}

// warningStore is a store with warnings.
type warningStore interface {
	store.Store
	warnings.Store
}

func inMemory(t *testing.T) warningStore {
	t.Helper()
	s, err := memstore.New(memstore.Config{})
	do(t, err)
	t.Cleanup(func() { do(t, s.Close()) })
	return s
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// warn adds a warning of a caller at 80 % of 5 dollars.
func warn(t *testing.T, s store.Store, caller int, at time.Time) {
	t.Helper()
	do(t, s.Warn(t.Context(), &store.Warning{
		Key: store.Key{RuleSet: "llm", Rule: "budget", ID: store.KeyID{byte(caller), byte(caller >> 8)}}, Band: "month", Percent: 80,
		Capacity: 5_000_000, Used: 4_010_000, Measure: "usd", At: at.UnixMicro(), Ends: at.Add(time.Hour).UnixMicro(),
	}))
}

// drained waits until no warning is pending.
func drained(t *testing.T, s warnings.Store) {
	t.Helper()
	testenv.Eventually(t, "no warning is pending", func() bool {
		pending, err := s.PendingWarnings(t.Context(), "", 10)
		return err == nil && len(pending) == 0
	})
}

// A warning is posted once, signed, logged and counted.
func TestCourier_Run(t *testing.T) {
	r, s := newReceiver(t, nil), inMemory(t)
	file := filepath.Join(t.TempDir(), "secret")
	do(t, os.WriteFile(file, []byte("hidden secret of the webhook\n"), 0o600))
	at := time.Date(2026, 11, 18, 20, 0, 0, 0, time.UTC)
	warn(t, s, 1, at)
	c := start(t, s, r.url, file)
	c.counts.want(t, map[string]int{"llm delivered": 1})
	drained(t, s)
	p := r.got()[0]
	key := "01" + strings.Repeat("0", 30)
	for name, want := range map[string]any{
		"type": "limit.warning", "time": "2026-11-18T20:00:00Z", "ruleSet": "llm", "rule": "budget", "limit": "month", "percent": 80.0,
		"capacity": 5e6, "used": 4.01e6, "measure": "usd", "text": "$4.01 of $5.00", "key": key, "ends": "2026-11-18T21:00:00Z",
	} {
		if p.fields[name] != want {
			t.Errorf("%s is %v, want %v", name, p.fields[name], want)
		}
	}
	if _, named := p.fields["identity"]; named || len(p.fields) != 13 || p.id == "" {
		t.Errorf("posted %s", p.body)
	}
	var seconds int64
	var sum string
	_, err := fmt.Sscanf(p.signature, "t=%d,v1=%s", &seconds, &sum)
	do(t, err)
	if want := signature("hidden secret of the webhook", seconds, p.body); sum != want || time.Since(time.Unix(seconds, 0)) > time.Minute {
		t.Errorf("the signature is %s, want %s", p.signature, want)
	}
	lines := c.log.Lines("limit reached its warning level")
	if len(lines) != 1 || !strings.Contains(lines[0], "$4.01 of $5.00") || !strings.Contains(lines[0], key) {
		t.Errorf("logged %q", lines)
	}
	if len(r.got()) != 1 {
		t.Errorf("%d posts", len(r.got()))
	}
}

func signature(secret string, seconds int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", seconds, body)
	return hex.EncodeToString(mac.Sum(nil))
}

// Without a webhook a warning is logged and counted.
func TestCourier_NoWebhook(t *testing.T) {
	s := inMemory(t)
	warn(t, s, 1, time.Now())
	c := start(t, s, "", "")
	c.counts.want(t, map[string]int{"llm delivered": 1})
	drained(t, s)
}

// A warning is posted until the receiver accepts it, and one that fails does not hold others.
func TestCourier_Failures(t *testing.T) {
	for name, fail := range map[string]struct {
		answer func(w http.ResponseWriter)
		says   string
	}{
		"a status":  {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) }, "the webhook answered with status 500"},
		"no answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "posting to the webhook: no valid answer"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "the webhook answered with status 307"},
		"a redirect to nowhere": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://["+path)
			w.WriteHeader(http.StatusFound)
		},
			"posting to the webhook: no valid answer"},
		"a large header": {func(w http.ResponseWriter) { w.Header().Set("X-Large", strings.Repeat("x", 32<<10)) }, "posting to the webhook: no valid answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, first := inMemory(t), "01"+strings.Repeat("0", 30)
			var repaired atomic.Bool
			r := newReceiver(t, func(w http.ResponseWriter, p post, _ int) {
				if p.fields["key"] == first && !repaired.Load() {
					fail.answer(w)
				}
			})
			warn(t, s, 1, time.Now())
			warn(t, s, 2, time.Now())
			c := start(t, s, r.url, "")
			testenv.Eventually(t, "one of two has failed twice", func() bool {
				c.counts.mu.Lock()
				defer c.counts.mu.Unlock()
				return c.counts.all["llm delivered"] == 1 && c.counts.all["llm failed"] > 1
			})
			if problem := c.Problem(); !strings.HasPrefix(problem, "events.webhook: warnings not delivered yet: 1: "+fail.says) || len(problem) > 300 {
				t.Errorf("the problem is %q", problem)
			}
			repaired.Store(true)
			drained(t, s)
			testenv.Eventually(t, "the problem is over", func() bool { return c.Problem() == "" })
			if len(r.got()) < 4 {
				t.Errorf("%d posts", len(r.got()))
			}
		})
	}
}

// However many warnings of one rule set a receiver refuses, it gets those of others at once.
func TestCourier_RuleSets(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := testenv.StartStandalone(t, testenv.Config{})
	shared, err := redisstore.Open(t.Context(), redis.URI(), redisstore.Config{Timeout: 5 * time.Second})
	do(t, err)
	t.Cleanup(func() { do(t, shared.Close()) })
	for name, s := range map[string]warningStore{"in memory": inMemory(t), "in Redis": shared} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, p post, _ int) {
				if p.fields["ruleSet"] == "flood" {
					w.WriteHeader(http.StatusBadRequest)
				}
			})
			warnOf := func(ruleSet string, caller int) {
				now := time.Now()
				do(t, s.Warn(t.Context(), &store.Warning{
					Key:  store.Key{RuleSet: ruleSet, Rule: "budget", ID: store.KeyID{byte(caller), byte(caller >> 8)}},
					Band: "month", Percent: 80, At: now.UnixMicro(), Ends: now.Add(time.Hour).UnixMicro(),
				}))
			}
			c := start(t, s, r.url, "")
			for caller := range 12_000 { // more than are in memory
				warnOf("flood", caller)
			}
			for caller := range 3 {
				warnOf("llm", caller)
				began := time.Now()
				testenv.Eventually(t, "the other rule set's warning is delivered", func() bool {
					c.counts.mu.Lock()
					defer c.counts.mu.Unlock()
					return c.counts.all["llm delivered"] == caller+1
				})
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("the warning took %v", took)
				}
			}
			if problem := c.Problem(); !strings.Contains(problem, "status 400") {
				t.Errorf("the problem is %q", problem)
			}
		})
	}
}

// A receiver that never answers holds a few posts, and a body without an end none.
func TestCourier_Slow(t *testing.T) {
	end := make(chan struct{})
	s, first := inMemory(t), "01"+strings.Repeat("0", 30)
	r := newReceiver(t, func(w http.ResponseWriter, p post, _ int) {
		if p.fields["key"] == first {
			<-end
			return
		}
		w.WriteHeader(http.StatusAccepted)
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 8<<10))
		}
	})
	t.Cleanup(func() { close(end) })
	for caller := range 50 {
		warn(t, s, caller+1, time.Now())
	}
	c := start(t, s, r.url, "")
	began := time.Now()
	c.counts.want(t, map[string]int{"llm delivered": 49})
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("49 warnings took %v", took)
	}
	c.counts.want(t, map[string]int{"llm delivered": 49, "llm failed": 1})
	if problem := c.Problem(); problem != "events.webhook: warnings not delivered yet: 1: posting to the webhook: no answer in time" {
		t.Errorf("the problem is %q", problem)
	}
}

// A receiver that is away gets its warnings when it is back.
func TestCourier_Away(t *testing.T) {
	addr, s := testenv.FreeAddr(t), inMemory(t)
	warn(t, s, 1, time.Now())
	c := start(t, s, "http://"+addr+path, "")
	testenv.Eventually(t, "a post has failed", func() bool { c.counts.mu.Lock(); defer c.counts.mu.Unlock(); return c.counts.all["llm failed"] > 0 })
	listener, err := net.Listen("tcp", addr)
	do(t, err)
	back := &httptest.Server{Listener: listener, Config: &http.Server{Handler: &receiver{times: map[string]int{}}}}
	back.Start()
	t.Cleanup(back.Close)
	drained(t, s)
	if lines := c.log.Lines("cannot deliver a warning"); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
}

// After a day a warning is dropped.
func TestCourier_Dropped(t *testing.T) {
	s := inMemory(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ post, _ int) { w.WriteHeader(http.StatusGone) })
	warn(t, s, 1, time.Now().Add(-24*time.Hour))
	c := start(t, s, r.url, "")
	c.counts.want(t, map[string]int{"llm dropped": 1})
	drained(t, s)
	if lines := c.log.Lines("warning dropped"); len(lines) != 1 || !strings.Contains(lines[0], "status 410") || len(r.got()) != 1 {
		t.Errorf("logged %q after %d posts", lines, len(r.got()))
	}
}

// losing is a store that loses the first removal, as Redis does in a failover.
type losing struct {
	warningStore
	lost atomic.Bool
}

func (l *losing) DeliveredWarning(ctx context.Context, w *store.Warning) error {
	if l.lost.CompareAndSwap(false, true) {
		return nil
	}
	return l.warningStore.DeliveredWarning(ctx, w)
}

// A warning whose removal is lost is posted again, under the same id, and removed.
func TestCourier_LostRemoval(t *testing.T) {
	t.Parallel() // it mostly waits
	s := &losing{warningStore: inMemory(t)}
	r := newReceiver(t, nil)
	warn(t, s, 1, time.Now())
	start(t, s, r.url, "")
	drained(t, s)
	if got := r.got(); len(got) != 2 || got[0].id != got[1].id {
		t.Errorf("posted %+v", got)
	}
}

// The secret is read for each post. While the file cannot be read, warnings wait.
func TestCourier_SecretChanges(t *testing.T) {
	r, s := newReceiver(t, nil), inMemory(t)
	file := filepath.Join(t.TempDir(), "secret")
	c := start(t, s, r.url, file)
	for i, secret := range []string{"", "hidden: the first secret", "hidden: the second secret", "", "hidden: the third secret"} {
		if secret == "" {
			_ = os.Remove(file)
			warn(t, s, i+1, time.Now())
			testenv.Eventually(t, "the post fails", func() bool {
				return strings.HasSuffix(c.Problem(), "cannot read events.secret-file")
			})
			continue
		}
		do(t, os.WriteFile(file, []byte(secret), 0o600))
		warn(t, s, i+1, time.Now())
		drained(t, s)
		posts := r.got()
		p := posts[len(posts)-1]
		var seconds int64
		var sum string
		_, err := fmt.Sscanf(p.signature, "t=%d,v1=%s", &seconds, &sum)
		do(t, err)
		if len(posts) != i+1 || sum != signature(secret, seconds, p.body) {
			t.Errorf("post %d of %d is not signed with %q", i, len(posts), secret)
		}
	}
}

// One of two servers delivers. If it ends, the other goes on without waiting for its lease.
func TestCourier_TwoServers(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	open := func() *redisstore.Store {
		s, err := redisstore.Open(t.Context(), redis.URI(), redisstore.Config{Timeout: 5 * time.Second})
		do(t, err)
		t.Cleanup(func() { do(t, s.Close()) })
		return s
	}
	r, stores := newReceiver(t, nil), []*redisstore.Store{open(), open()}
	couriers := []*courier{start(t, stores[0], r.url, ""), start(t, stores[1], r.url, "")}
	delivered := func(c *courier) int {
		c.counts.mu.Lock()
		defer c.counts.mu.Unlock()
		return c.counts.all["llm delivered"]
	}
	for caller := range 100 {
		warn(t, stores[caller%2], caller, time.Now())
	}
	testenv.Eventually(t, "all are counted", func() bool { return delivered(couriers[0])+delivered(couriers[1]) == 100 })
	leader, other := couriers[0], couriers[1]
	if delivered(other) > 0 {
		leader, other = other, leader
	}
	if delivered(leader) != 100 || delivered(other) != 0 || len(r.got()) != 100 {
		t.Fatalf("delivered %d and %d, posts %d", delivered(leader), delivered(other), len(r.got()))
	}
	leader.stop()
	began := time.Now()
	warn(t, stores[0], 100, began)
	testenv.Eventually(t, "the other delivers", func() bool { return delivered(other) == 1 })
	if took := time.Since(began); took > 5*time.Second || delivered(other) != 1 || len(r.got()) != 101 {
		t.Errorf("took %v, the other delivered %d, posts %d", took, delivered(other), len(r.got()))
	}
}
