package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// The allocations of a check, without net/http, are bounded.
func TestCheck_Allocations(t *testing.T) {
	d := newDesk(t, newStore(t))
	body := []byte(`{"ruleSet":"api","ip":"192.0.2.1","userId":"ann","method":"GET","path":"/orders","peek":true}`)
	reader := bytes.NewReader(body)
	r := httptest.NewRequest(http.MethodPost, "/v1/check", io.NopCloser(reader))
	r.ContentLength = int64(len(body))
	w := &nowhere{header: http.Header{}}
	got := testing.AllocsPerRun(2_000, func() {
		reader.Reset(body)
		d.ServeHTTP(w, r)
		if w.status != 0 {
			t.Fatal(w.status)
		}
	})
	t.Logf("figure allocations-of-a-check: %v (bar 40)", got)
	if got > 40 {
		t.Errorf("%v allocations, want at most 40", got)
	}
}

// nowhere is a ResponseWriter that keeps nothing but an error's status.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(status int)      { w.status = status }

// fixed is a limiter that always has the same answer.
type fixed struct{ fluxgate.Limiter }

func (fixed) Check(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	if req.Cost < 0 || req.RuleSet != "" && !rules.ValidID(req.RuleSet) {
		panic("a request that no engine is asked")
	}
	return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
}

func FuzzCheck(f *testing.F) {
	for path, body := range good {
		f.Add(path, []byte(body))
	}
	f.Add("/v1/check", []byte(`{"userId":"\ud83d"}`))
	d := deskOf(f, nil, fixed{})
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if _, known := good[path]; !known {
			path = "/v1/check"
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		if w.Code != 200 && (w.Code < 400 || w.Code > 499) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("the answer is not JSON: %s", w.Body)
		}
		if w.Code == 200 && !json.Valid(body) {
			t.Fatalf("%q was accepted", body)
		}
	})
}
