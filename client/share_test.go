package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// recorder is a server that records the requests it gets.
type recorder struct {
	*httptest.Server
	// before is called before a request is answered; nil means no call.
	before func(r *http.Request)

	mu      sync.Mutex
	batches []int // how many checks each batch has
	bytes   int   // of the largest batch
	alone   int   // checks with a request of their own
}

func newRecorder(t testing.TB, h http.Handler) *recorder {
	t.Helper()
	s := new(recorder)
	s.Server = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		s.record(r.URL.Path, body)
		if s.before != nil {
			s.before(r)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	return s
}

func (s *recorder) record(path string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path {
	case "/v1/check":
		s.alone++
	case "/v1/check:batch":
		var batch struct{ Requests []json.RawMessage }
		_ = json.Unmarshal(body, &batch)
		s.batches = append(s.batches, len(batch.Requests))
		s.bytes = max(s.bytes, len(body))
	}
}

// requests returns the sizes of the batches, and how many checks came alone.
func (s *recorder) requests() (batches []int, alone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches), s.alone
}

// result is what a caller got.
type result struct {
	d   fluxgate.Decision
	err error
}

// together has callers check at the same time, so that they are queued. After
// release, which may change something first, all that have not left share a request.
func together(t testing.TB, c *client.Client, calls map[string]func() (fluxgate.Decision, error)) (results map[string]chan result, release func()) {
	t.Helper()
	release = client.Occupy(c)
	results = make(map[string]chan result, len(calls))
	for name, check := range calls {
		got := make(chan result, 1)
		results[name] = got
		go func() {
			d, err := check()
			got <- result{d, err}
		}()
	}
	testenv.Eventually(t, "all checks are queued", func() bool { return client.Waiting(c) == len(calls) })
	return results, release
}

// checking is a call of a caller.
func checking(ctx context.Context, c *client.Client, req fluxgate.Request) func() (fluxgate.Decision, error) {
	return func() (fluxgate.Decision, error) { return c.Check(ctx, &req) }
}

// Many callers need fewer requests than they have checks, and get exactly what the
// limit allows.
func TestShare_ManyCallers(t *testing.T) {
	const callers, each, capacity = 64, 20, 1_000
	rule := rules.Rule{ID: "r", Bands: []rules.Band{rules.PerDay(capacity)}} // no token comes back meanwhile
	engine := engineOver(t, newRedis(t, testenv.SharedStandalone(t).URI(), patient), []rules.Rule{rule}, fluxgate.WithOnFailure(rules.FailClosed))
	server := newRecorder(t, handler(t, engine))
	c := newClient(t, server.URL, client.Config{})
	passed := make([]int, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				if d, err := c.Check(t.Context(), &fluxgate.Request{}); err != nil || d.Degraded {
					t.Errorf("%+v, %v", answerOf(&d), err)
				} else if d.Allowed {
					passed[i]++
				}
			}
		})
	}
	all.Wait()
	batches, alone := server.requests()
	shared, sum := 0, 0
	for _, n := range batches {
		shared += n
	}
	for _, n := range passed {
		sum += n
	}
	if sum != capacity || shared+alone != callers*each {
		t.Errorf("%d pass, %d checks arrive; want %d and %d", sum, shared+alone, capacity, callers*each)
	}
	if requests := len(batches) + alone; requests > callers*each/3 || slices.Max(batches) > 64 {
		t.Errorf("%d requests for %d checks, with up to %d checks", requests, callers*each, slices.Max(batches))
	}
}

// A caller with no others sends single checks. So do callers that must not share,
// who are never queued.
func TestShare_Alone(t *testing.T) {
	for name, c := range map[string]struct{ callers, maxBatch int }{"a lone caller": {1, 0}, "MaxBatch is 1": {16, 1}} {
		t.Run(name, func(t *testing.T) {
			server := newRecorder(t, handler(t, engineOver(t, newStore(t), []rules.Rule{perHour("r", 1_000)})))
			limiter := newClient(t, server.URL, client.Config{MaxBatch: c.maxBatch})
			if c.maxBatch == 1 {
				defer client.Occupy(limiter)()
			}
			var all sync.WaitGroup
			for range c.callers {
				all.Go(func() {
					for range 20 {
						if d, err := limiter.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if batches, alone := server.requests(); len(batches) > 0 || alone != 20*c.callers {
				t.Errorf("batches %v, %d checks alone", batches, alone)
			}
		})
	}
}

// Each caller of a shared request gets its own decision or error. One that leaves
// the queue is not sent.
func TestShare_OwnAnswers(t *testing.T) {
	engine := engineOver(t, newRedis(t, testenv.SharedStandalone(t).URI(), patient), []rules.Rule{
		with(perHour("r", 5), func(r *rules.Rule) { r.Scope = rules.ScopeUser }),
		{ID: "no", Priority: 9, Action: rules.ActionDeny, Paths: []string{"/no"}},
	}, fluxgate.WithOnFailure(rules.FailClosed))
	server := newRecorder(t, handler(t, engine))
	c := newClient(t, server.URL, client.Config{})
	leaving, leave := context.WithCancel(t.Context())
	late := func() (fluxgate.Decision, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return c.Check(ctx, &fluxgate.Request{UserID: "ann"})
	}
	results, release := together(t, c, map[string]func() (fluxgate.Decision, error){
		"ann": checking(t.Context(), c, fluxgate.Request{UserID: "ann", Cost: 2}), "bob": checking(t.Context(), c, fluxgate.Request{UserID: "bob", Cost: 6}),
		"denied": checking(t.Context(), c, fluxgate.Request{Path: "/no"}), "invalid": checking(t.Context(), c, fluxgate.Request{RuleSet: "not an id"}),
		"leaving": checking(leaving, c, fluxgate.Request{UserID: "ann"}), "late": late,
		"peek": checking(t.Context(), c, fluxgate.Request{UserID: "cat", Peek: true}),
	})
	leave()
	for name, want := range map[string]error{"leaving": context.Canceled, "late": context.DeadlineExceeded} { // before the others are sent
		if got := <-results[name]; !errors.Is(got.err, want) || got.d.Allowed {
			t.Errorf("%s: %+v, %v", name, answerOf(&got.d), got.err)
		}
	}
	release()
	for name, want := range map[string]answer{
		"ann": {true, fluxgate.ReasonOK, "r"}, "bob": {false, fluxgate.ReasonCostTooHigh, "r"}, "denied": {false, fluxgate.ReasonDenied, "no"}, "peek": {true, fluxgate.ReasonOK, "r"},
	} {
		if got := <-results[name]; got.err != nil || answerOf(&got.d) != want {
			t.Errorf("%s: %+v, %v; want %+v", name, answerOf(&got.d), got.err, want)
		}
	}
	var status *client.StatusError
	if got := <-results["invalid"]; !errors.Is(got.err, client.ErrUndecided) || !errors.As(got.err, &status) || status.Status != http.StatusBadRequest || !strings.Contains(status.Detail, "ruleSet") {
		t.Errorf("invalid: %+v, %v", answerOf(&got.d), got.err)
	}
	if batches, alone := server.requests(); !slices.Equal(batches, []int{5}) || alone != 0 {
		t.Errorf("batches %v, %d alone; want one of 5", batches, alone)
	}
	if got := left(t, engine, fluxgate.Request{UserID: "ann"})["r.hour"]; got != 3 {
		t.Errorf("ann has %d left, want 3", got)
	}
}

// The client's own timeout ends the wait in the queue, and the check is not sent.
func TestShare_TimeoutInQueue(t *testing.T) {
	server := newRecorder(t, handler(t, engineOver(t, newStore(t), []rules.Rule{perHour("r", 5)})))
	var heard failures
	c := newClient(t, server.URL, client.Config{Timeout: 50 * time.Millisecond, OnFailure: rules.FailClosed, Failed: heard.hear})
	results, release := together(t, c, map[string]func() (fluxgate.Decision, error){
		"a": checking(t.Context(), c, fluxgate.Request{}), "b": checking(t.Context(), c, fluxgate.Request{}),
	})
	for name := range results {
		if got := <-results[name]; got.err != nil || answerOf(&got.d) != (answer{false, fluxgate.ReasonStoreFailure, ""}) {
			t.Errorf("%s: %+v, %v", name, answerOf(&got.d), got.err)
		}
	}
	release()
	if batches, alone := server.requests(); len(batches) > 0 || alone > 0 || heard.count.Load() != 2 || !strings.Contains(heard.text(), "no answer in time") {
		t.Errorf("batches %v, %d alone, %d failures, %q", batches, alone, heard.count.Load(), heard.text())
	}
	if n := client.Waiting(c); n != 0 {
		t.Errorf("%d checks are still queued", n)
	}
}

// A caller that leaves after its check was sent does not disturb the others, and
// what the check took is given back. A request that all leave ends.
func TestShare_CallersLeave(t *testing.T) {
	engine := engineOver(t, newRedis(t, testenv.SharedStandalone(t).URI(), patient), []rules.Rule{{ID: "r", Bands: []rules.Band{{Label: "year", Capacity: 100, Refill: 365 * 24 * time.Hour}}}}, fluxgate.WithOnFailure(rules.FailClosed))
	server := newRecorder(t, handler(t, engine))
	sent, ended, proceed := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	server.before = func(r *http.Request) {
		if r.URL.Path != "/v1/check:batch" {
			return
		}
		sent <- struct{}{}
		select {
		case <-proceed:
		case <-r.Context().Done():
			close(ended)
		}
	}
	c := newClient(t, server.URL, client.Config{})
	start := func() (results map[string]chan result, leave map[string]context.CancelFunc) {
		calls, leave := map[string]func() (fluxgate.Decision, error){}, map[string]context.CancelFunc{}
		for _, name := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			leave[name], calls[name] = cancel, checking(ctx, c, fluxgate.Request{Cost: 10})
		}
		results, release := together(t, c, calls)
		release()
		<-sent
		return results, leave
	}
	results, leave := start()
	leave["a"]()
	if got := <-results["a"]; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the caller that left: %v", got.err)
	}
	proceed <- struct{}{}
	for _, name := range []string{"b", "c"} {
		if got := <-results[name]; got.err != nil || !got.d.Allowed || got.d.Receipt() == nil {
			t.Errorf("%s: %+v, %v", name, answerOf(&got.d), got.err)
		}
	}
	tokens := func() int64 { return left(t, engine, fluxgate.Request{})["r.year"] }
	// A microsecond's refill may be missing from what comes back.
	testenv.Eventually(t, "its tokens are given back", func() bool { return tokens() >= 79 })
	if got := tokens(); got > 80 {
		t.Errorf("%d left, want 80", got)
	}
	before := tokens()
	results, leave = start()
	for name := range results {
		leave[name]()
		if got := <-results[name]; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	<-ended
	if got := tokens(); got != before {
		t.Errorf("%d left of %d after a request that ended before it was decided", got, before)
	}
}

// A shared request has a bounded size, and a large check is sent alone.
func TestShare_Bytes(t *testing.T) {
	server := newRecorder(t, handler(t, engineOver(t, newStore(t), []rules.Rule{perHour("r", 1_000)})))
	c := newClient(t, server.URL, client.Config{})
	calls := several(t, c, 12, fluxgate.Request{Attributes: map[string]string{"a": strings.Repeat("x", 3<<10)}})
	calls["large"] = checking(t.Context(), c, fluxgate.Request{Attributes: map[string]string{"a": strings.Repeat("x", 40<<10)}})
	results, release := together(t, c, calls)
	release()
	expect(t, results, answer{true, fluxgate.ReasonOK, "r"})
	if batches, alone := server.requests(); len(batches) < 2 || slices.Max(batches) != 5 || server.bytes > 16<<10 || alone < 1 {
		t.Errorf("batches of %v with up to %d bytes, %d alone", batches, server.bytes, alone)
	}
}

// Checks that are queued or under way when the client is closed are answered.
func TestShare_Close(t *testing.T) {
	server := newRecorder(t, handler(t, engineOver(t, newStore(t), []rules.Rule{perHour("r", 1_000)})))
	sent, proceed := make(chan struct{}), make(chan struct{})
	server.before = func(*http.Request) {
		sent <- struct{}{}
		<-proceed
	}
	c := newClient(t, server.URL, client.Config{})
	first, release := together(t, c, several(t, c, 4, fluxgate.Request{}))
	release()
	<-sent
	second, release := together(t, c, several(t, c, 4, fluxgate.Request{}))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	release()
	close(proceed)
	<-sent
	expect(t, first, answer{true, fluxgate.ReasonOK, "r"})
	expect(t, second, answer{true, fluxgate.ReasonOK, "r"})
	if batches, alone := server.requests(); !slices.Equal(batches, []int{4, 4}) || alone != 0 {
		t.Errorf("batches of %v and %d alone", batches, alone)
	}
}
