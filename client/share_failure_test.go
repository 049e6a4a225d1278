package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

// several are n callers with the same check.
func several(t testing.TB, c *client.Client, n int, req fluxgate.Request) map[string]func() (fluxgate.Decision, error) {
	calls := make(map[string]func() (fluxgate.Decision, error), n)
	for i := range n {
		calls[fmt.Sprint("caller ", i)] = checking(t.Context(), c, req)
	}
	return calls
}

// expect compares the answers of all callers.
func expect(t testing.TB, results map[string]chan result, want answer) {
	t.Helper()
	for name, got := range results {
		if got := <-got; got.err != nil || answerOf(&got.d) != want {
			t.Errorf("%s: %+v, %v; want %+v", name, answerOf(&got.d), got.err, want)
		}
	}
}

// If the answer to a shared request is lost, each of its callers has one failure,
// and no check is decided twice.
func TestShare_LostAnswer(t *testing.T) {
	const callers, capacity = 8, 100 // regains nothing while the test runs
	engine := engineOver(t, newRedis(t, testenv.SharedStandalone(t).URI(), patient), []rules.Rule{perHour("r", capacity)}, fluxgate.WithOnFailure(rules.FailClosed))
	var answered atomic.Int64
	api := handler(t, engine)
	server := newRecorder(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r)
		answered.Add(1)
	}))
	proxy := testenv.StartProxy(t, server.Listener.Addr().String())
	var heard failures
	c := newClient(t, "http://"+proxy.Addr(), client.Config{OnFailure: rules.FailClosed, Failed: heard.hear})
	// An idle connection, which net/http would use to send a request again.
	if d, err := c.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
		t.Fatal(err)
	}
	for round := range int64(3) {
		results, release := together(t, c, several(t, c, callers, fluxgate.Request{}))
		proxy.SwallowReplies(true)
		release()
		testenv.Eventually(t, "the server has answered", func() bool { return answered.Load() == 2*round+2 })
		proxy.Cut()
		expect(t, results, answer{false, fluxgate.ReasonStoreFailure, ""})
		proxy.SwallowReplies(false)
		if d, err := c.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
			t.Errorf("the next check: %+v, %v", answerOf(&d), err)
		}
		want := capacity - 1 - (round+1)*(callers+1)
		if got := left(t, engine, fluxgate.Request{})["r.hour"]; got != want || heard.count.Load() != (round+1)*callers {
			t.Errorf("%d left after %d failures, want %d after %d", got, heard.count.Load(), want, (round+1)*callers)
		}
	}
	if batches, _ := server.requests(); !slices.Equal(batches, []int{callers, callers, callers}) {
		t.Errorf("the server got batches of %v", batches)
	}
}

// A server that does not accept a batch gets its checks alone, and smaller batches
// from then on.
func TestShare_RefusedBatch(t *testing.T) {
	const callers = 8
	limited := func(engine *fluxgate.Engine) http.Handler {
		api := fluxgate.Must(check.New(check.Config{Limiter: engine, Issuer: fluxgate.Must(receipt.NewIssuer(receipt.Config{})), MaxBatch: 5}))
		mux := http.NewServeMux()
		for pattern, h := range api.Routes() {
			mux.Handle(pattern, h)
		}
		return mux
	}
	unknown := func(engine *fluxgate.Engine) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /v1/check", handler(t, engine))
		return mux
	}
	for name, c := range map[string]struct {
		server  func(*fluxgate.Engine) http.Handler
		batches []int // of three rounds
		alone   int
	}{
		"a low max-batch":          {limited, []int{8, 4, 4, 4, 4}, 8},
		"a server without batches": {unknown, []int{8, 4, 4, 2, 2}, 24},
	} {
		t.Run(name, func(t *testing.T) {
			engine := engineOver(t, newStore(t), []rules.Rule{perHour("r", 1_000)})
			server := newRecorder(t, c.server(engine))
			limiter := newClient(t, server.URL, client.Config{})
			client.CountUntilEnd(limiter)
			for range 3 {
				results, release := together(t, limiter, several(t, limiter, callers, fluxgate.Request{}))
				release()
				expect(t, results, answer{true, fluxgate.ReasonOK, "r"})
			}
			if batches, alone := server.requests(); !slices.Equal(batches, c.batches) || alone != c.alone {
				t.Errorf("batches of %v and %d alone, want %v and %d", batches, alone, c.batches, c.alone)
			}
			if taken := 1_000 - left(t, engine, fluxgate.Request{})["r.hour"]; taken != 3*callers {
				t.Errorf("%d tokens for %d checks", taken, 3*callers)
			}
		})
	}
}

// Each caller of a shared request without a valid answer has a failure; an answer
// that has arrived before counts.
func TestShare_InvalidAnswer(t *testing.T) {
	const yes = `{"index":0,"decision":{"allowed":true,"reason":"no-rule","remaining":0}}` + "\n"
	for _, c := range []struct {
		name     string
		status   int
		reply    string
		answered int
		want     string // in the error
	}{
		{"nothing", 200, "", 0, "not an answer of a fluxgate server"},
		{"an answer to one", 200, yes, 1, "not an answer of a fluxgate server"},
		{"the same answer again", 200, yes + yes, 1, "not an answer of a fluxgate server"},
		{"an index that is too high", 200, yes + strings.Replace(yes, "0", "2", 1), 1, "not an answer of a fluxgate server"},
		{"a negative index", 200, strings.Replace(yes, "0", "-1", 1), 0, "not an answer of a fluxgate server"},
		{"the document of a batch", 200, `{"decisions":[{"allowed":true,"reason":"no-rule"},{"allowed":true,"reason":"no-rule"}]}`, 0, "reading the answer"},
		{"something that is not JSON", 200, "<html>", 0, "not an answer of a fluxgate server"},
		{"a line that is too long", 200, yes + strings.Repeat(" ", 2<<20), 1, "too long"},
		{"a token that is not accepted", 401, "", 0, "401"},
		{"a proxy without a server", 502, "", 0, "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newRecorder(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.reply))
			}))
			var heard failures
			limiter := newClient(t, server.URL, client.Config{OnFailure: rules.FailClosed, Failed: heard.hear})
			results, release := together(t, limiter, several(t, limiter, 2, fluxgate.Request{}))
			release()
			answered := 0
			for name, got := range results {
				got := <-got
				if got.d.Allowed {
					answered++
				} else if got.err != nil || answerOf(&got.d) != (answer{false, fluxgate.ReasonStoreFailure, ""}) {
					t.Errorf("%s: %+v, %v", name, answerOf(&got.d), got.err)
				}
			}
			if n := heard.count.Load(); answered != c.answered || n != int64(2-c.answered) || !strings.Contains(heard.text(), c.want) {
				t.Errorf("%d were answered and %d failed with %q; want %d, and %q", answered, n, heard.text(), c.answered, c.want)
			}
			if batches, alone := server.requests(); !slices.Equal(batches, []int{2}) || alone != 0 {
				t.Errorf("batches of %v and %d alone", batches, alone)
			}
		})
	}
}

// A check that a rule holds does not delay the others of its request, nor later
// callers.
func TestShare_HeldCheck(t *testing.T) {
	slow := with(queue(5*time.Minute), func(r *rules.Rule) { r.Paths = []string{"/queue"} })
	engine := engineOver(t, newStore(t), []rules.Rule{slow}, fluxgate.WithWaiting(store.MaxWait, 100))
	c := newClient(t, newRecorder(t, handler(t, engine)).URL, client.Config{MaxWait: store.MaxWait})
	if d, err := c.Check(t.Context(), &fluxgate.Request{Path: "/queue"}); err != nil || !d.Allowed {
		t.Fatal(err)
	}
	for range 3 { // more than may be under way
		calls := several(t, c, 4, fluxgate.Request{})
		calls["held"] = checking(t.Context(), c, fluxgate.Request{Path: "/queue"})
		results, release := together(t, c, calls)
		release()
		delete(results, "held")
		expect(t, results, answer{true, fluxgate.ReasonNoRule, ""})
	}
	for range 10 {
		if d, err := c.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
			t.Errorf("a later caller: %v", err)
		}
	}
}
