package forwardauth_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/forwardauth"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// world is a proxy in front of a backend, with a fluxgate over a Redis of its
// own beside it.
type world struct {
	t        *testing.T
	at       frontproxy.Addresses
	redis    *testenv.Server
	answers  http.Handler
	asked    *atomic.Int64 // questions that reached fluxgate
	fluxgate *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.SkipShort(t)
	w := &world{t: t, asked: new(atomic.Int64), at: frontproxy.FreeAddresses(t), redis: testenv.StartStandalone(t, testenv.Config{})}
	// The time is for slow machines: nothing here is about it.
	store, err := redisstore.Open(t.Context(), w.redis.URI(), redisstore.Config{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	engine, err := fluxgate.New(store, fluxgate.Static(newRules(t)), fluxgate.WithOnFailure(rules.FailClosed))
	if err != nil {
		t.Fatal(err)
	}
	w.answers = newHandler(t, engine, forwardauth.Config{APIKeyHeader: "X-API-Key"})
	w.startFluxgate(w.answers)
	backend := serve(t, w.at.Backend, http.HandlerFunc(echo))
	t.Cleanup(backend.Close)
	return w
}

// rules are the rule set that the snippets name.
func newRules(t *testing.T) *rules.Set {
	hourly := func(n int64) []rules.Band { return []rules.Band{{Label: "hour", Capacity: n, Refill: time.Hour}} }
	set, err := rules.NewSet("api-limits",
		rules.Rule{ID: "health", Paths: []string{"/healthz"}, Action: rules.ActionAllow, Priority: 9},
		rules.Rule{ID: "per-ip", Paths: []string{"/limited/**"}, Scope: rules.ScopeIP, Bands: hourly(3)},
		rules.Rule{ID: "search", Paths: []string{"/search/*"}, Scope: rules.ScopeIP, Bands: hourly(3)},
		rules.Rule{ID: "per-key", Paths: []string{"/keys"}, Scope: rules.ScopeAPIKey, Bands: hourly(1)},
		rules.Rule{ID: "posts", Paths: []string{"/posts"}, Methods: []string{http.MethodPost}, Scope: rules.ScopeIP, Bands: hourly(1)},
		rules.Rule{ID: "host", Paths: []string{"/host"}, When: rules.When{Hosts: []string{"api.example.org"}}, Scope: rules.ScopeIP, Bands: hourly(1)},
		rules.Rule{ID: "forbidden", Paths: []string{"/forbidden/**"}, Action: rules.ActionDeny},
		rules.Rule{ID: "strict", Paths: []string{"/strict"}, OnFailure: rules.FailClosed, Bands: hourly(1000)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// serve runs a server at an address.
func serve(t *testing.T, addr string, handler http.Handler) *httptest.Server {
	t.Helper()
	var listener net.Listener
	testenv.Eventually(t, "nobody probes whether the port is free", func() (free bool) {
		var err error
		listener, err = net.Listen("tcp", addr)
		return err == nil
	})
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Config.MaxHeaderBytes = 32 << 10 // as the fluxgate server has it
	server.Start()
	return server
}

// startFluxgate answers questions with a handler, until stopFluxgate or the
// test's end.
func (w *world) startFluxgate(handler http.Handler) {
	w.t.Helper()
	server := serve(w.t, w.at.Fluxgate, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		if n, err := io.Copy(io.Discard, r.Body); n > 0 || err != nil {
			w.t.Errorf("fluxgate gets %d bytes of a body: %v", n, err)
		}
		handler.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(server.Close)
	w.fluxgate = server
}

func (w *world) stopFluxgate() { w.fluxgate.Close() }

// echoed is what the backend says about a request that reached it.
type echoed struct {
	Method, URI, Host, Body string
	Headers                 http.Header
}

// echo switches to every protocol that it is asked for, as careless backends do.
func echo(w http.ResponseWriter, r *http.Request) {
	if protocol := r.Header.Get("Upgrade"); protocol != "" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", protocol)
		accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // as RFC 6455 has it
		w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(accept[:]))
		w.WriteHeader(http.StatusSwitchingProtocols)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Backend", "yes")
	if r.URL.Path == "/backend-says-403" {
		w.WriteHeader(http.StatusForbidden)
	}
	_ = json.NewEncoder(w).Encode(echoed{r.Method, r.RequestURI, r.Host, digest(body), r.Header})
}

// digest is the body as the backend tells of it.
func digest(body []byte) string { return fmt.Sprintf("%d bytes, %x", len(body), sha256.Sum256(body)) }

// client is somebody with an address of its own, and a connection that is kept.
type client struct {
	*http.Client
	w     *world
	dials atomic.Int64
}

func (w *world) client(ip string) *client {
	c := &client{w: w}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: time.Minute}
	transport := &http.Transport{MaxIdleConnsPerHost: 1, ExpectContinueTimeout: time.Second}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.dials.Add(1)
		return dialer.DialContext(ctx, network, addr)
	}
	c.Client = &http.Client{Transport: transport, Timeout: time.Minute}
	w.t.Cleanup(transport.CloseIdleConnections)
	return c
}

// answer is what a client gets.
type answer struct {
	Status  int
	Header  http.Header
	Body    []byte
	Backend *echoed // nil if the backend has not seen the request
}

func (a answer) String() string { return fmt.Sprintf("%d %v %.300s", a.Status, a.Header, a.Body) }

// do sends a request, with headers given as name, value, name, value.
func (c *client) do(method, path string, body []byte, headers ...string) answer {
	c.w.t.Helper()
	return c.send(method, path, bytes.NewReader(body), headers...)
}

// chunked sends a body without saying how large it is.
func (c *client) chunked(path string, body []byte) answer {
	c.w.t.Helper()
	return c.send(http.MethodPost, path, io.MultiReader(bytes.NewReader(body)))
}

// send sends a request that is to be answered.
func (c *client) send(method, path string, body io.Reader, headers ...string) answer {
	c.w.t.Helper()
	a, err := c.exchange(method, path, body, headers...)
	if err != nil {
		c.w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// try gets what a proxy may cut off.
func (c *client) try(path string, headers ...string) (answer, error) {
	c.w.t.Helper()
	return c.exchange(http.MethodGet, path, http.NoBody, headers...)
}

func (c *client) exchange(method, path string, body io.Reader, headers ...string) (a answer, err error) {
	t := c.w.t
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.w.at.Proxy+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	a = answer{Status: res.StatusCode, Header: res.Header}
	if a.Body, err = io.ReadAll(res.Body); err != nil {
		return a, err
	}
	if res.Header.Get("X-Backend") != "" {
		a.Backend = new(echoed)
		if err := json.Unmarshal(a.Body, a.Backend); err != nil && method != http.MethodHead {
			t.Fatalf("%s %s: %v: %s", method, path, err, a.Body)
		}
	}
	return a, nil
}

// raw sends text as it is over a connection of its own, and reads one response.
func (w *world) raw(t *testing.T, ip, text string) answer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", w.at.Proxy)
	if err != nil {
		t.Fatalf("the proxy is gone: %v", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no response to %.100q: %v", text, err)
	}
	a := answer{Status: res.StatusCode, Header: res.Header}
	if a.Status == http.StatusSwitchingProtocols {
		return a
	}
	defer func() { _ = res.Body.Close() }()
	if a.Body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("X-Backend") != "" {
		a.Backend = new(echoed)
		if err := json.Unmarshal(a.Body, a.Backend); err != nil {
			t.Fatalf("%v: %s", err, a.Body)
		}
	}
	return a
}

func (c *client) get(path string, headers ...string) answer {
	c.w.t.Helper()
	return c.do(http.MethodGet, path, nil, headers...)
}

// passes fails the test if the backend has not answered.
func (a answer) passes(t *testing.T) answer {
	t.Helper()
	if a.Status != http.StatusOK || a.Backend == nil {
		t.Fatalf("it does not pass: %v", a)
	}
	return a
}

// refused fails the test if the answer is not this status, without the backend.
func (a answer) refused(t *testing.T, status int) answer {
	t.Helper()
	if a.Status != status || a.Backend != nil {
		t.Fatalf("it is not refused with %d: %v", status, a)
	}
	for name := range a.Header {
		if len(name) > 10 && name[:10] == "X-Fluxgate" {
			t.Errorf("%s is between fluxgate and the proxy, and reaches the client", name)
		}
	}
	return a
}
