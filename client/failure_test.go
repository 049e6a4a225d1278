package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The reason is at the end of an error about a certificate, behind all the
// names that it is valid for. It is kept however many these are.
func TestClient_TLSErrorKeepsItsEnd(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	for i := range 30 {
		leaf.DNSNames = append(leaf.DNSNames, fmt.Sprintf("gateway-%d.region.example.com", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	var failed error
	c, err := client.New(server.URL, client.Config{
		OnFailure: rules.FailOpen, TLS: &tls.Config{RootCAs: roots, ServerName: "limits.example.com", MinVersion: tls.VersionTLS12},
		Failed: func(_ context.Context, err error) { failed = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Check(t.Context(), &fluxgate.Request{Path: "/x"}); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(failed); !strings.Contains(text, "failed to verify certificate") || !strings.HasSuffix(text, ", not limits.example.com") || len(text) > 500 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// unusedURL is the URL of a server that does not run.
func unusedURL(t testing.TB) string { return "http://" + testenv.FreeAddr(t) }

func reply(status, contentType, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, contentType, len(body), body)
}

// Without a valid decision the client allows or rejects as configured. It sends
// each request exactly once.
func TestClient_InvalidAnswer(t *testing.T) {
	const yes = `{"allowed":true,"reason":"ok","remaining":1,"source":"store"`
	const jsonType = "application/json"
	band := func(fields string) string {
		return reply("200 OK", jsonType, yes+`,"bands":[{"rule":"r","status":"ok","source":"store",`+fields+`}]}`)
	}
	for _, c := range []struct {
		name, reply string
		stay        bool
		timeout     time.Duration
		want        string // in the error
	}{
		{name: "a server that hangs", stay: true, timeout: 500 * time.Millisecond, want: "no answer in time"},
		{name: "a header that never ends", reply: "HTTP/1.1 200 OK\r\nX-Slow: ", stay: true, timeout: 500 * time.Millisecond, want: "no answer in time"},
		{name: "a body that never ends", reply: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", stay: true, timeout: 500 * time.Millisecond, want: "no answer in time"},
		{name: "no answer but a closed connection", want: "EOF"},
		{name: "a connection cut in the header", reply: "HTTP/1.1 200 OK\r\nContent-Le", want: "broken"},
		{name: "a connection cut in the body", reply: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", want: "EOF"},
		{name: "a header that is too long", reply: "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", want: "exceeded"},
		{name: "a body that says it is too long", reply: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", stay: true, want: "more than"},
		{name: "a body that is too long", reply: "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 2<<20), want: "more than"},
		{name: "something that is not HTTP", reply: "+PONG\r\n", want: "malformed"},
		{name: "our own words", reply: "HTTP/1.1 200 OK\r\nAuthorization Bearer hush-hush\r\n\r\n", want: "malformed"},
		{name: "a long line", reply: strings.Repeat("x", 20<<10) + "\r\n", want: "malformed"},
		{name: "something that is not JSON", reply: reply("200 OK", "text/html", "<html>welcome</html>"), want: "not an answer of a fluxgate server"},
		{name: "JSON that is nothing", reply: reply("200 OK", jsonType, "{}"), want: "reason"},
		{name: "JSON that is null", reply: reply("200 OK", jsonType, "null"), want: "reason"},
		{name: "a decision with the wrong types", reply: reply("200 OK", jsonType, `{"allowed":"yes"}`), want: "not an answer of a fluxgate server"},
		{name: "a rule that cannot be", reply: reply("200 OK", jsonType, yes+`,"rule":"a\"b\r\nX: y"}`), want: "rule"},
		{name: "a band that holds nothing", reply: band(`"limit":0,"remaining":0,"capacity":0,"refillTokens":0,"refillMs":0`), want: "numbers"},
		{name: "a band beyond all numbers", reply: band(`"limit":1,"remaining":0,"capacity":9223372036854775807,"refillTokens":1,"refillMs":4e12`), want: "numbers"},
		{name: "a status that nobody knows", reply: strings.Replace(band(`"limit":1,"remaining":1,"capacity":1,"refillTokens":1,"refillMs":1`), `"ok","source"`, `"oj","source"`, 1), want: "status"},
		{name: "a time before all others", reply: reply("200 OK", jsonType, yes+`,"waitMs":-5}`), want: "negative"},
		{name: "a redirect", reply: "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/elsewhere\r\nContent-Length: 0\r\n\r\n", want: "307"},
		{name: "a token that is not accepted", reply: reply("401 Unauthorized", "application/problem+json", `{"detail":"Who\u0007 are you?"}`), want: "Who\ufffd are you?"},
		{name: "a wrong path", reply: reply("404 Not Found", "text/plain", "no"), want: "404"},
		{name: "a server that is draining", reply: reply("503 Service Unavailable", "text/plain", "no"), want: "503"},
		{name: "a proxy without a server", reply: reply("502 Bad Gateway", "text/html", "no"), want: "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for mode, allowed := range map[rules.OnFailure]bool{rules.FailOpen: true, rules.FailClosed: false} {
				address, asked := scripted(t, c.reply, c.stay)
				var heard failures
				limiter := newClient(t, address, client.Config{Timeout: c.timeout, OnFailure: mode, Failed: heard.hear, Token: []byte("hush-hush")})
				d, err := limiter.Check(t.Context(), &fluxgate.Request{APIKey: "my-own-key"})
				if want := (answer{allowed, fluxgate.ReasonStoreFailure, ""}); err != nil || answerOf(&d) != want || !d.Degraded || d.Receipt() != nil {
					t.Fatalf("%s: %+v, degraded %t, %v", mode, answerOf(&d), d.Degraded, err)
				}
				if n := asked.Load(); n != 1 {
					t.Errorf("it was asked %d times", n)
				}
				if text := heard.text(); heard.count.Load() != 1 || !strings.Contains(text, c.want) {
					t.Errorf("told %d times, %q; want %q", heard.count.Load(), text, c.want)
				}
				if text := heard.text(); strings.Contains(text, "hush-hush") || strings.Contains(text, "my-own-key") || len(text) > 500 {
					t.Errorf("a secret, or too much, in %q", text)
				}
			}
		})
	}
}

// An unavailable server is a failure.
func TestClient_ServerUnavailable(t *testing.T) {
	var heard failures
	limiter := newClient(t, unusedURL(t), client.Config{Failed: heard.hear})
	d, err := limiter.Check(t.Context(), &fluxgate.Request{})
	if err != nil || answerOf(&d) != (answer{true, fluxgate.ReasonStoreFailure, ""}) || heard.count.Load() != 1 {
		t.Errorf("%+v, %v, %q", answerOf(&d), err, heard.text())
	}
}

// A request that the server refuses as invalid is not allowed.
func TestClient_InvalidRequest(t *testing.T) {
	g := newGate(t, newStore(t), []rules.Rule{perHour("r", 5)})
	for name, req := range map[string]fluxgate.Request{
		"a rule set that cannot be":     {RuleSet: "not an id"},
		"more than the server reads":    {Headers: map[string][]string{"X-Long": {strings.Repeat("x", 200<<10)}}},
		"more than the client sends":    {Path: "/" + strings.Repeat("x", 300<<10)},
		"more than the server reads, a": {Attributes: map[string]string{"a": strings.Repeat("\x00", 30<<10)}},
	} {
		d, err := g.Check(t.Context(), &req)
		if !errors.Is(err, client.ErrUndecided) || d.Allowed || len(err.Error()) > 500 {
			t.Errorf("%s: allowed %t, %v", name, d.Allowed, err)
		}
	}
	if _, err := g.Check(t.Context(), &fluxgate.Request{Cost: -1}); !errors.Is(err, fluxgate.ErrCost) {
		t.Errorf("a negative cost: %v", err)
	}
	address, _ := scripted(t, reply("500 Internal Server Error", "application/problem+json", `{"detail":"More than 64 rules apply to the request."}`), false)
	_, err := newClient(t, address, client.Config{OnFailure: rules.FailOpen}).Check(t.Context(), &fluxgate.Request{})
	var status *client.StatusError
	if !errors.Is(err, client.ErrUndecided) || !errors.As(err, &status) || status.Status != 500 || !strings.Contains(err.Error(), "64 rules") {
		t.Errorf("a server without a decision: %v", err)
	}
}

// A rule set that is named and does not exist is an error, alone and in a batch, and OnFailure
// does not allow it. A 404 of a proxy is a failure like any other.
func TestClient_UnknownRuleSet(t *testing.T) {
	g := newGate(t, newStore(t), []rules.Rule{perHour("r", 500)}, fluxgate.WithKnownRuleSets())
	errs := make(chan error, 60)
	for range cap(errs) {
		go func() {
			d, err := g.Check(t.Context(), &fluxgate.Request{RuleSet: "unknown"})
			if d.Allowed {
				err = errors.New("it was allowed")
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, fluxgate.ErrNoRuleSet) || !errors.Is(err, client.ErrUndecided) {
			t.Errorf("error %v", err)
		}
	}
	limit, err := httplimit.New(g, httplimit.WithRuleSet("unknown"))
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", http.NoBody))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), `"reason":"no-rule-set"`) {
		t.Errorf("the middleware answers %d %s", answer.Code, answer.Body)
	}
	address, _ := scripted(t, reply("404 Not Found", "application/problem+json", `{"detail":"No such endpoint."}`), false)
	open := client.Config{OnFailure: rules.FailOpen, Failed: func(context.Context, error) {}}
	if d, err := newClient(t, address, open).Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
		t.Errorf("a 404 of another server: allowed %t, %v", d.Allowed, err)
	}
}

// A caller whose context ends gets the error of the context.
func TestClient_ContextEnds(t *testing.T) {
	address, _ := scripted(t, "", true)
	limiter := newClient(t, address, client.Config{OnFailure: rules.FailOpen})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	leaving, leave := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, leave)
	for want, ctx := range map[error][]context.Context{context.Canceled: {canceled, leaving}, context.DeadlineExceeded: {late}} {
		for _, ctx := range ctx {
			if d, err := limiter.Check(ctx, &fluxgate.Request{}); !errors.Is(err, want) || d.Allowed {
				t.Errorf("allowed %t, %v; want %v", d.Allowed, err, want)
			}
		}
	}
}

// The server receives every field of a request.
func TestClient_SentFields(t *testing.T) {
	type body struct {
		Headers   map[string][]string
		TimeoutMs float64
		APIKey    string
	}
	got := make(chan body, 1)
	authorization := make(chan string, 1)
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b body
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil || r.URL.Path != "/limits/v1/check" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got <- b
		authorization <- r.Header.Get("Authorization")
		fmt.Fprint(w, `{"allowed":true,"reason":"no-rule","remaining":0,"source":"store"}`)
	}))
	headers := map[string][]string{"Cookie": {"a"}, "authorization": {"b"}, "X-Tenant": {"c"}, "Accept": {"d"}}
	for _, c := range []struct {
		name   string
		config client.Config
		want   []string
		bearer string
		most   float64
	}{
		{"all but credentials", client.Config{Timeout: 10 * time.Second}, []string{"Accept", "X-Tenant"}, "", 5_000},
		{"what was named", client.Config{Timeout: 10 * time.Second, MaxWait: time.Minute, Headers: []string{"x-tenant", "cookie"}, Token: []byte("t0ken")}, []string{"Cookie", "X-Tenant"}, "Bearer t0ken", 65_000},
		{"nothing", client.Config{Headers: []string{}}, nil, "", 10_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			limiter := newClient(t, server.URL+"/limits/", c.config)
			if strings.Contains(fmt.Sprintf("%v %+v %#v", limiter, *limiter, c.config), "t0ken") {
				t.Error("the token can be printed")
			}
			if d, err := limiter.Check(t.Context(), &fluxgate.Request{Headers: headers, APIKey: "k"}); err != nil || !d.Allowed {
				t.Fatal(err)
			}
			b := <-got
			for _, name := range c.want {
				if len(b.Headers[name]) != 1 {
					t.Errorf("%s did not arrive", name)
				}
			}
			if len(b.Headers) != len(c.want) || b.APIKey != "k" || b.TimeoutMs != c.most {
				t.Errorf("arrived: %+v; want a timeout of %v", b, c.most)
			}
			if auth := <-authorization; auth != c.bearer {
				t.Errorf("authorization %q, want %q", auth, c.bearer)
			}
			if len(headers) != 4 {
				t.Error("the caller's headers were changed")
			}
		})
	}
}

// An invalid configuration is refused.
func TestNew_InvalidConfig(t *testing.T) {
	engine := engineOver(t, newStore(t), []rules.Rule{perHour("r", 1)})
	for name, config := range map[string]client.Config{
		"a negative timeout":          {Timeout: -1},
		"a negative wait":             {MaxWait: -1},
		"a wait beyond all":           {MaxWait: 2 * store.MaxWait},
		"no connections":              {MaxConns: -1},
		"an unknown failure mode":     {OnFailure: "maybe"},
		"local without a fallback":    {OnFailure: rules.FailLocal},
		"a fallback that is not used": {OnFailure: rules.FailOpen, Fallback: engine},
		"a token with a line break":   {Token: []byte("hush\r\nX: y")},
	} {
		if _, err := client.New("http://127.0.0.1:1", config); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, address := range []string{
		"", "127.0.0.1:8080", "redis://h:1", "http://", "http://user:hush@h:1", "http://h:1?q=hush", "http://h:1#hush", "http://hush@h:b\x7f", "https://:80",
	} {
		if _, err := client.New(address, client.Config{}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
