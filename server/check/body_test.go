package check_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/check"
)

// Bodies that encoding/json would read as the same caller are refused.
func TestCheck_InvalidUnicode(t *testing.T) {
	d := newDesk(t, newStore(t))
	for body, status := range map[string]int{
		`{"userId":"\ud83d\ude00"}`:        200, // a whole pair
		`{"userId":"\\ud83d"}`:             200, // a backslash and letters
		`{"userId":"\ufffd"}`:              200, // itself
		`{"userId":"\ud83d"}`:              400,
		`{"userId":"\ude00\ud83d"}`:        400,
		`{"userId":"\ud83dx"}`:             400,
		`{"userId":"\ud83d\u0041"}`:        400,
		`{"userId":"\\\ud83d"}`:            400,
		"{\"userId\":\"\xff\"}":            400,
		`{"bytes":true,"userId":"ÿ"}`:      200,
		`{"bytes":true,"userId":"\u0100"}`: 400,
	} {
		if w := d.post("/v1/check", body); w.Code != status {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, status)
		}
	}
	raw, err := d.engine.Check(t.Context(), &fluxgate.Request{UserID: "\xff"})
	if err != nil || raw.Remaining != 8 {
		t.Errorf("a caller named by bytes is another: %d left, want 8", raw.Remaining)
	}
}

// Other bodies and methods are refused.
func TestCheck_BodiesAndMethods(t *testing.T) {
	d := newDesk(t, newStore(t))
	for _, c := range []struct {
		method, contentType string
		want                int
	}{
		{http.MethodPost, "", 200}, {http.MethodPost, "application/json", 200}, {http.MethodPost, "application/json; charset=utf-8", 200},
		{http.MethodPost, "text/plain", 415}, {http.MethodPost, "application/x-www-form-urlencoded", 415}, {http.MethodPost, ";", 415},
		{http.MethodGet, "", 405}, {http.MethodPut, "application/json", 405},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, "/v1/check", strings.NewReader("{}"))
		r.Header.Set("Content-Type", c.contentType)
		if d.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s %q: %d, want %d", c.method, c.contentType, w.Code, c.want)
		}
	}
}

// No answer contains the caller's API key, in whatever field it was sent.
func TestCheck_NoSecrets(t *testing.T) {
	const key = "sk-live-0123456789"
	d := newDesk(t, newStore(t))
	for path, bodies := range map[string][]string{
		"/v1/check": {
			`{"apiKey":"%s"}`, `{"apiKey":"%s","path":"/keys"}`, `{"ip":"%s"}`, `{"ruleSet":"%s !"}`, `{"cost":"%s"}`, `{"%s":1}`,
			`{"headers":{"%s":1}}`, `{"attributes":{"%s":1}}`, `{"attributes":{"a":"%s"},"cost":-1}`, `{"apiKey":"%s"`, `"%s"`, `%s`, `{"apiKey":"%s","timeoutMs":"x"}`,
		},
		"/v1/check:batch":      {`{"requests":[{"apiKey":"%s"}]}`, `{"requests":[{"ip":"%s"}]}`, `{"requests":{"%s":1}}`},
		"/v1/settle":           {`{"receipt":"%s"}`, `{"receipt":1,"%s":1}`},
		"/api/ratelimit/check": {`{"apiKey":"%s"}`, `{"clientIp":"%s"}`, `{"apiKey":["%s"]}`},
	} {
		for _, body := range bodies {
			w := d.post(path, fmt.Sprintf(body, key))
			if text := fmt.Sprint(w.Header(), w.Body); strings.Contains(text, "0123456789") {
				t.Errorf("%s %s: %s", path, body, text)
			}
		}
	}
}

// Requests with large bodies that a rule holds keep no slot: others of the same caller are
// answered.
func TestCheck_HeldLargeBodies(t *testing.T) {
	d := deskOf(t, nil, broken{func(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		if req.UserID == "held" {
			check.Waiting(ctx) // as the server's observer does
			<-ctx.Done()
			return fluxgate.Decision{}, ctx.Err()
		}
		return fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonNoRule}, nil
	}})
	ctx, leave := context.WithCancel(t.Context())
	var held sync.WaitGroup
	defer held.Wait()
	defer leave()
	header := `"headers":{"X-Large":["` + strings.Repeat("x", 20<<10) + `"]}`
	bodies := map[string]string{"/v1/check": `{"userId":"%s",` + header + `}`, "/v1/check:batch": `{"requests":[{"userId":"%s",` + header + `}]}`}
	for range 20 {
		for path, body := range bodies {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fmt.Sprintf(body, "held"))).WithContext(ctx)
			held.Go(func() { d.ServeHTTP(httptest.NewRecorder(), r) })
		}
	}
	for path, body := range bodies {
		for range 20 {
			if w := d.post(path, fmt.Sprintf(body, "ann")); w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}
