package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// An invalid address is rejected.
func TestClient_InvalidAddress(t *testing.T) {
	for _, address := range []string{
		"", "localhost:9090", "//localhost", "ftp://localhost", "http://", "http://user:pass-word@localhost", "http://localhost/?a=b", "http://localhost/#a", "http://[::1", "http://a b/", "unix:///socket",
	} {
		c, err := admin.NewClient(address, admin.ClientConfig{})
		if err == nil || c != nil {
			t.Errorf("%s is accepted", address)
		} else if strings.Contains(err.Error(), "pass-word") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	if _, err := admin.NewClient("http://localhost", admin.ClientConfig{Timeout: -1}); err == nil {
		t.Error("a negative timeout is accepted")
	}
}

// Requests have the expected method, path, headers and body.
func TestClient_Requests(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		sent = append(sent, strings.TrimSpace(fmt.Sprintf("%s %s auth=%q match=%s none=%s %s", r.Method, r.RequestURI, h.Get("Authorization"), h.Get("If-Match"), h.Get("If-None-Match"), body)))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"revision":7,"ruleSets":[]}`)
	}))
	defer server.Close()
	c := clientOf(t, server.URL+"/behind/a%2Fproxy/")
	revision, err := c.Put(t.Context(), setOf(t, "mine"), by(0, "one & two"))
	if err != nil || revision != 7 {
		t.Errorf("revision %d (%v)", revision, err)
	}
	_, err = c.Delete(t.Context(), "mi/ne", by(3, ""))
	do(t, err)
	_, err = c.List(t.Context(), "a&b", 5)
	do(t, err)
	auth := `auth="Bearer ` + word + `"`
	want := []string{
		"PUT /behind/a%2Fproxy/v1/rule-sets/mine?comment=one+%26+two " + auth + ` match= none=* {"id":"mine","rules":[]}`,
		"DELETE /behind/a%2Fproxy/v1/rule-sets/mi%2Fne " + auth + ` match="3" none=`,
		"GET /behind/a%2Fproxy/v1/rule-sets?after=a%26b&limit=5 " + auth + " match= none=",
	}
	if strings.Join(sent, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
	}
}

// Invalid answers are errors.
func TestClient_InvalidAnswers(t *testing.T) {
	page := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const problem, escape = "application/problem+json", "\x1b]0;pwned\x07"
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"an HTML page":                    {page(200, "text/html", "<html>It works!</html>"), "not an answer of the admin API"},
		"an empty body":                   {page(200, "application/json", ""), "not an answer of the admin API"},
		"a truncated body":                {page(200, "application/json", `{"ruleSets":[{"id":`), "not an answer of the admin API"},
		"another type":                    {page(200, "application/json", `{"ruleSets":7}`), "not an answer of the admin API"},
		"an answer to another request":    {page(200, "application/json", `{"id":"mine"}`), "not an answer of the admin API"},
		"a list":                          {page(200, "application/json", `[]`), "not an answer of the admin API"},
		"a 404 page of another server":    {page(404, "text/html", "<html>not found</html>"), "answers 404 Not Found; is this the address"},
		"a problem of another API":        {page(404, problem, `{"title":"Not Found","status":404}`), "404 Not Found"},
		"a malformed problem":             {page(404, problem, `{"kind":"not-found","detail":7}`), "answers 404"},
		"a problem with another status":   {page(500, problem, `{"status":200,"detail":"all is well"}`), "all is well"},
		"a problem with escape sequences": {page(400, problem, `{"detail":"a\u001b[31mb\nc","errors":[{"location":"\u001b]x","message":"\u0007y"}]}`), "a\ufffd[31mb c\n  \ufffd]x: \ufffdy"},
		"an author with escape sequences": {page(412, problem, `{"kind":"conflict","detail":"x","conflict":{"ruleSet":"mine","current":2,"author":"a\u001b[31mb"}}`), "x"},
		"a page with escape sequences":    {page(502, "text/html", escape), "502 Bad Gateway"},
		"an empty error":                  {page(503, "", ""), "503 Service Unavailable"},
		"a very long problem":             {page(400, problem, `{"detail":"`+strings.Repeat("long ", 10_000)+`"}`), "long"},
	} {
		client := clientTo(t, c.handler)
		_, err := client.List(t.Context(), "", 0)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if errors.Is(err, rules.ErrNotFound) || errors.Is(err, admin.ErrReadOnly) {
			t.Errorf("%s is accepted as an answer of the API: %v", name, err)
		}
		if strings.ContainsAny(err.Error(), "\x1b\x07") || len(err.Error()) > 2_000 {
			t.Errorf("%s: the error is %q", name, err)
		}
		var conflict *admin.Conflict
		if errors.As(err, &conflict) && strings.Contains(conflict.Error(), "\x1b") {
			t.Errorf("%s: the conflict is %q", name, conflict)
		}
		// An answer of another server must not mean "not found".
		if history, err := client.History(t.Context(), "mine", 0, 0); err == nil {
			t.Errorf("%s: the history is %+v", name, history)
		}
		if v, err := client.Version(t.Context(), "mine", 1); err == nil {
			t.Errorf("%s: the version is %+v", name, v)
		}
		if revision, err := client.Put(t.Context(), setOf(t, "mine", 5), by(1, "")); err == nil {
			t.Errorf("%s: the change succeeded as revision %d", name, revision)
		}
	}
}

// An answer that is too long is an error.
func TestClient_LongAnswer(t *testing.T) {
	var sent atomic.Int64
	c := clientTo(t, func(w http.ResponseWriter, _ *http.Request) {
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range 100 {
			n, err := w.Write(spaces)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	if _, err := c.Load(t.Context(), "mine"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the error is %v", err)
	}
}

// A redirect is not followed.
func TestClient_Redirect(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := clientTo(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		_, err := c.Put(t.Context(), setOf(t, "mine", 5), by(0, ""))
		var p *admin.Problem
		if !errors.As(err, &p) || p.Status != status {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := c.Load(t.Context(), "mine"); err == nil {
			t.Errorf("%d: a rule set was loaded", status)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests were redirected", n)
	}
}

// The token is shown nowhere.
func TestClient_TokenNotShown(t *testing.T) {
	d := newDesk(t)
	config := admin.ClientConfig{Token: admin.Secret(word)}
	shown := fmt.Sprintf("%v %+v %#v %s %v %+v %#v", d.client, d.client, d.client, text(t, config), config, &config, config)
	if strings.Contains(shown, word) {
		t.Errorf("printing shows the token: %s", shown)
	}
	var failures []error
	fail := func(_ any, err error) { failures = append(failures, err) }
	fail(d.client.Load(t.Context(), "none"))
	echo := clientTo(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization"), http.StatusTeapot)
	})
	fail(echo.Load(t.Context(), "none"))
	d.Close()
	fail(d.client.Load(t.Context(), "none"))
	bad, err := admin.NewClient(d.URL, admin.ClientConfig{Token: admin.Secret(word + "\n")})
	do(t, err)
	fail(bad.Load(t.Context(), "none"))
	for i, err := range failures {
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), word) {
			t.Errorf("failure %d is %v", i, err)
		}
	}
}

// An unavailable server is an error.
func TestClient_ServerUnavailable(t *testing.T) {
	d := newDesk(t)
	d.Close()
	for name, call := range map[string]func() error{
		"Put":     func() error { _, err := d.client.Put(t.Context(), setOf(t, "mine", 5), by(0, "")); return err },
		"Load":    func() error { _, err := d.client.Load(t.Context(), "mine"); return err },
		"Explain": func() error { _, err := d.client.Explain(t.Context(), &fluxgate.Request{RuleSet: "mine"}); return err },
		"Reset":   func() error { return d.client.Reset(t.Context(), admin.Reset{RuleSet: "mine"}) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "calling the server") || errors.Is(err, rules.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A server that does not respond times out.
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer silent.Close()
	defer close(hold)
	c, err := admin.NewClient(silent.URL, admin.ClientConfig{Timeout: 50 * time.Millisecond})
	do(t, err)
	defer c.Close()
	began := time.Now()
	if _, err := c.Load(t.Context(), "mine"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("a server that does not respond, after %v: %v", time.Since(began), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Load(ended, "mine"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
}

// A wrong token is an error of the client.
func TestClient_WrongToken(t *testing.T) {
	d := newDesk(t)
	c, err := admin.NewClient(d.URL, admin.ClientConfig{Token: admin.Secret("wrong")})
	do(t, err)
	defer c.Close()
	_, err = c.Put(t.Context(), setOf(t, "mine", 5), by(0, ""))
	var p *admin.Problem
	if !errors.As(err, &p) || p.Status != http.StatusUnauthorized || p.Kind != admin.KindAccess {
		t.Errorf("the error is %v", err)
	}
}

// refusing is an editor that rejects every rule set.
type refusing struct{ *memrules.Source }

// Put implements [rules.Editor].
func (refusing) Put(_ context.Context, set *rules.Set, _ rules.Change) (int64, error) {
	problem := rules.Problem{Code: rules.CodeUnsupported, Path: rules.Path{"rules", 0, "attributes"}, Message: "is nested too deeply"}
	return 0, &rules.ValidationError{RuleSetID: set.ID(), Problems: []rules.Problem{problem}}
}

// The client returns the problems of rules.
func TestClient_ValidationProblems(t *testing.T) {
	d := newDesk(t, refusing{memrules.New(memrules.Config{})})
	_, err := d.client.Put(t.Context(), setOf(t, "mine", 5), by(0, ""))
	var p *admin.Problem
	if !errors.As(err, &p) || p.Kind != admin.KindValidation || len(p.Errors) != 1 || p.Errors[0].Location != "body.rules[0].attributes" {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(err.Error(), "\n  rules[0].attributes: ") {
		t.Errorf("the error is %q", err)
	}
	var invalid *rules.ValidationError
	want := rules.Problem{Code: rules.CodeUnsupported, Path: rules.Path{"rules", 0, "attributes"}, Message: "is nested too deeply"}
	if !errors.As(err, &invalid) || invalid.RuleSetID != "mine" || !reflect.DeepEqual(invalid.Problems, []rules.Problem{want}) {
		t.Errorf("it unwraps to %#v, want %#v", invalid, want)
	}
}

// Rules in effect are not taken for those of the source, which may be others.
func TestClient_FromMemory(t *testing.T) {
	c := clientTo(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(admin.FromHeader, admin.FromMemory)
		_, _ = w.Write([]byte(`{"ruleSets":[{"id":"mine","revision":1}]}`))
	})
	list, err := c.List(t.Context(), "", 0)
	var p *admin.Problem
	if !errors.As(err, &p) || p.Kind != admin.KindUnavailable {
		t.Errorf("%v, %v", list, err)
	}
}
