package check_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/check"
)

// batchLine is a line of the answer to a batch.
type batchLine struct {
	Index  int         `json:"index"`
	Answer batchAnswer `json:"decision"`
}

// batchAnswer is a decision, or why there is none.
type batchAnswer struct {
	wire.Decision
	Error  string `json:"error"`
	Status int    `json:"status"` // 0 of a decision
}

// A token gets an error for each request of a batch whose rule set it must not
// check, and decisions for the others.
func TestBatch_RuleSetsOfToken(t *testing.T) {
	const body = `{"requests":[{"ruleSet":"others"},{"ruleSet":"api"},{},{"ruleSet":"others"}]}`
	for token, want := range map[string][]int{"all": {0, 0, 0, 0}, "some": {0, 0, 0, 0}, "other": {0, 403, 403, 0}} {
		var asked atomic.Int64
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/check:batch", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		guarded(t, "api", counting(&asked)).ServeHTTP(w, r)
		var got struct{ Decisions []batchAnswer }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", token, w.Code, w.Body, err)
		}
		var statuses []int
		allowed := int64(0)
		for i := range got.Decisions {
			e := &got.Decisions[i]
			if statuses = append(statuses, e.Status); e.Allowed {
				allowed++
			}
			if e.Allowed == (e.Status != 0) || strings.Contains(e.Error, "ruleSet: ") != (e.Status != 0) {
				t.Errorf("%s: entry %d is %+v", token, i, e)
			}
		}
		if !slices.Equal(statuses, want) || asked.Load() != allowed {
			t.Errorf("%s: statuses %v, %d decided; want %v", token, statuses, asked.Load(), want)
		}
	}
}

// postLines asks a real server for an answer in lines, and returns a function that
// reads the next one, "" at the end.
func postLines(ctx context.Context, t *testing.T, url, body string) (next func() string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/check:batch", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", wire.Lines)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close(); http.DefaultClient.CloseIdleConnections() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != wire.Lines {
		t.Fatalf("%s %s", response.Status, got)
	}
	lines := bufio.NewScanner(response.Body)
	return func() string {
		lines.Scan()
		return lines.Text()
	}
}

// In lines every request has an answer, which is the decision or the error that it
// has in a document.
func TestBatch_Lines(t *testing.T) {
	const body = `{"requests":[{"userId":"ann","peek":true},{"ip":"here"},{"path":"/blocked"},{"cost":-1},{"userId":"bob","cost":11}]}`
	d := newDesk(t, newStore(t))
	var want struct{ Decisions []json.RawMessage }
	if err := json.Unmarshal(d.post("/v1/check:batch", body).Body.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	next := postLines(t.Context(), t, serve(t, d, 30*time.Second).URL, body)
	lines := make([]string, len(want.Decisions))
	for i := range lines {
		lines[i] = next()
	}
	slices.Sort(lines)
	for i, line := range lines {
		if want := fmt.Sprintf(`{"index":%d,"decision":%s}`, i, want.Decisions[i]); line != want {
			t.Errorf("line %s\nwant %s", line, want)
		}
	}
	if more := next(); more != "" {
		t.Errorf("a line too many: %s", more)
	}
}

// A request that a rule holds does not delay the others of its batch, and is given
// up when the caller leaves.
func TestBatch_LinesHeld(t *testing.T) {
	left := make(chan struct{})
	limiter := broken{func(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		if req.UserID == "held" {
			check.Waiting(ctx) // as the server's observer does
			<-ctx.Done()
			close(left)
			return fluxgate.Decision{}, ctx.Err()
		}
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}}
	server := serve(t, deskOf(t, nil, limiter), 30*time.Second)
	ctx, leave := context.WithTimeout(t.Context(), 30*time.Second) // or a line that is not sent would block the test
	defer leave()
	next := postLines(ctx, t, server.URL, `{"requests":[{"userId":"held"},{"userId":"ann"},{"userId":"bob"}]}`)
	lines := []string{next(), next()}
	slices.Sort(lines)
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"index":%d,"decision":{"allowed":true`, i+1)) {
			t.Errorf("line %s", line)
		}
	}
	leave()
	testenv.Eventually(t, "the request is given up", func() bool {
		select {
		case <-left:
			return true
		default:
			return false
		}
	})
}

// A batch whose caller left before the answer has the status of one, not an empty answer.
func TestBatch_CallerLeft(t *testing.T) {
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		ctx, leave := context.WithCancel(t.Context())
		limiter := broken{func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
			leave()
			return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
		}}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/check:batch", strings.NewReader(`{"requests":[{}]}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		deskOf(t, nil, limiter).ServeHTTP(w, r)
		if w.Code != httplimit.StatusClientClosedRequest || w.Body.Len() > 0 {
			t.Errorf("%s: %d %q, want %d and no body", accept, w.Code, w.Body, httplimit.StatusClientClosedRequest)
		}
	}
}

// A batch with too many requests, or with one that a check may not have, is refused as a
// whole before the rest is decoded. Fields are checked as in a single request.
func TestBatch_Bounds(t *testing.T) {
	d := newDesk(t, newStore(t))
	large := `{"path":"/` + strings.Repeat("a", 64<<10) + `"}`
	for body, want := range map[string]string{
		`{"requests":[` + strings.Repeat(`{},`, 99) + `{}]}`:      "200",
		`{"requests":[` + strings.Repeat(`{},`, 100) + `{}]}`:     "400 not more",
		`{"requests":[` + strings.Repeat(`{},`, 300_000) + `{}]}`: "400 not more",
		`{"requests":[{},` + large + `]}`:                         "413 at most 65536 bytes",
		`{"requests":[{},{"cost":"x"}]}`:                          "400 requests.cost: must be a whole number",
		`{"requests":[{},{"colour":1}]}`:                          `400 unknown field \"colour\"`,
		`{"requests":[{}],"colour":1}`:                            `400 unknown field \"colour\"`,
		`{"requests":[{},7]}`:                                     "400 requests: must be",
		`{"requests":[null]}`:                                     "400 requests: must be an object",
		`{"requests":[{}, null ,{}]}`:                             "400 requests: must be an object",
		`{"requests":{}}`:                                         "400 requests: must be a list",
		`{"requests":null}`:                                       "400 not 0",
		`{"requests":[{},{}],"requests":[{}]}`:                    "400 a name is there twice",
	} {
		w := d.post("/v1/check:batch", body)
		status, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(w.Code) != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%.60s of %d bytes: %d %.300s, want %s", body, len(body), w.Code, w.Body, want)
		}
	}
	body := `{"requests":[` + strings.Repeat(`{},`, 300_000) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d.post("/v1/check:batch", body)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 10 {
		t.Errorf("a body of %d bytes takes %d MiB", len(body), took)
	}
}

// A caller has 16 batches decided at once. Another one waits for a second and then gets 503,
// while other callers are answered. A batch has its slot for two seconds at most.
func TestBatch_Slots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		d := deskOf(t, nil, broken{func(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
			if req.UserID == "slow" {
				<-ctx.Done()
			}
			return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
		}})
		post := func(from, user string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/check:batch", strings.NewReader(`{"requests":[{"userId":"`+user+`"},{}]}`))
			r.RemoteAddr = from
			d.ServeHTTP(w, r)
			return w
		}
		for range 16 {
			go post("192.0.2.1:1", "slow")
		}
		synctest.Wait()
		began := time.Now()
		if w := post("192.0.2.1:2", "ann"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || time.Since(began) != time.Second {
			t.Errorf("a batch beyond the share of a caller: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		if w := post("192.0.2.2:1", "ann"); w.Code != http.StatusOK || time.Since(began) != time.Second {
			t.Errorf("a batch of another caller: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		if w := post("192.0.2.1:2", "ann"); w.Code != http.StatusOK || time.Since(began) != 2*time.Second {
			t.Errorf("a batch while others take long: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		leave()
	})
}

// A request that is decided late does not delay the lines of the others for long.
func TestBatch_LinesLate(t *testing.T) {
	late := make(chan struct{})
	server := serve(t, deskOf(t, nil, broken{func(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		if req.UserID == "late" {
			<-late
		}
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}}), 30*time.Second)
	ctx, leave := context.WithTimeout(t.Context(), 30*time.Second)
	defer leave()
	stalls, began := testenv.WatchStalls(t), time.Now()
	next := postLines(ctx, t, server.URL, `{"requests":[{"userId":"late"},{"userId":"ann"}]}`)
	if line, took := next(), stalls.Since(began); !strings.HasPrefix(line, `{"index":1,`) || took > time.Second {
		t.Errorf("line %s after %v", line, took)
	}
	close(late)
	if line := next(); !strings.HasPrefix(line, `{"index":0,`) {
		t.Errorf("line %s", line)
	}
}
