package forwardauth_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
)

// slow is the patience of proxies in tests that are not about it.
const slow = "30s"

// Real proxies pass and reject requests.
func TestProxy_Backend(t *testing.T) {
	for _, p := range frontproxy.All {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p.Start(t, w.at, false, slow)
			for _, test := range []struct {
				name string
				run  func(t *testing.T, w *world)
			}{
				{"passes what is allowed, with the limit's headers", allowed},
				{"answers 429 at the limit", limited},
				{"answers 403 where a rule denies", denied},
				{"leaves a 403 of the backend alone", backendForbids},
				{"counts by the real address", realAddress},
				{"asks about the client's method, path and host", realRequest},
				{"passes the API key on", apiKey},
				{"passes the body on", bodies},
				{"keeps connections", keepAlive},
				{"answers HEAD without a body", head},
				{"answers 503 where a rule fails closed", failsClosed},
			} {
				t.Run(test.name, func(t *testing.T) {
					inside := *w
					inside.t = t
					test.run(t, &inside)
				})
			}
		})
	}
}

func allowed(t *testing.T, w *world) {
	a := w.client("127.0.1.1").get("/limited/a?x=%2F").passes(t)
	if a.Backend.URI != "/limited/a?x=%2F" {
		t.Errorf("the backend sees %q", a.Backend.URI)
	}
	for name, value := range map[string]string{
		"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "2",
		"RateLimit-Policy": `"per-ip.hour";q=3;w=3600`, "RateLimit": `"per-ip.hour";r=2;t=1200`,
	} {
		if got := a.Header.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("%s is %q", name, got)
		}
	}
	if a.Header.Get("X-RateLimit-Reset") == "" || a.Header.Get("Retry-After") != "" {
		t.Errorf("%v", a)
	}
	if a := w.client("127.0.1.1").get("/free").passes(t); a.Header.Get("X-RateLimit-Limit") != "" || len(a.Header["X-Ratelimit-Limit"]) > 0 {
		t.Errorf("nothing limits this: %v", a)
	}
}

func limited(t *testing.T, w *world) {
	c := w.client("127.0.1.2")
	for range 3 {
		c.get("/limited/a").passes(t)
	}
	for range 2 {
		a := c.get("/limited/a").refused(t, http.StatusTooManyRequests)
		for name, value := range map[string]string{
			"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0", "RateLimit-Policy": `"per-ip.hour";q=3;w=3600`,
			"Content-Type": "application/problem+json",
		} {
			if got := a.Header.Values(name); len(got) != 1 || got[0] != value {
				t.Errorf("%s is %q", name, got)
			}
		}
		for _, name := range []string{"Retry-After", "RateLimit", "X-RateLimit-Reset"} {
			if got := a.Header.Values(name); len(got) != 1 || got[0] == "" {
				t.Errorf("%s is %q", name, got)
			}
		}
		if !strings.Contains(string(a.Body), `"status":429`) || !strings.Contains(string(a.Body), `"violated-policies":["per-ip.hour"]`) {
			t.Errorf("the body is %s", a.Body)
		}
	}
}

func denied(t *testing.T, w *world) {
	a := w.client("127.0.1.3").get("/forbidden/x").refused(t, http.StatusForbidden)
	if !strings.Contains(string(a.Body), `"reason":"denied"`) || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", a)
	}
	// However it is spelled.
	w.client("127.0.1.3").get("/free/..//forbidden/%78").refused(t, http.StatusForbidden)
}

func backendForbids(t *testing.T, w *world) {
	if a := w.client("127.0.1.4").get("/backend-says-403"); a.Status != http.StatusForbidden || a.Backend == nil {
		t.Errorf("%v", a)
	}
}

func realAddress(t *testing.T, w *world) {
	one, other := w.client("127.0.1.5"), w.client("127.0.1.6")
	for i := range 3 {
		forged := "192.0.2." + string(rune('1'+i))
		one.get("/limited/a", "X-Forwarded-For", forged, "X-Real-Ip", forged, "Forwarded", "for="+forged).passes(t)
	}
	one.get("/limited/a", "X-Forwarded-For", "192.0.2.9").refused(t, http.StatusTooManyRequests)
	one.get("/limited/a", "X-Forwarded-For", "127.0.1.6, 127.0.0.1").refused(t, http.StatusTooManyRequests)
	a := other.get("/limited/a", "X-Forwarded-For", "192.0.2.9").passes(t)
	if got := a.Backend.Headers.Values("X-Forwarded-For"); len(got) != 1 || got[0] != "127.0.1.6" {
		t.Errorf("the backend is told %q", got)
	}
	if a.Header.Get("X-RateLimit-Remaining") != "2" {
		t.Errorf("another client pays for the first: %v", a)
	}
}

// realRequest forges everything that a proxy says.
func realRequest(t *testing.T, w *world) {
	c := w.client("127.0.1.7")
	forged := []string{
		"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/free", "X-Forwarded-Host", "evil.example.org",
		"X-Original-Method", "GET", "X-Original-URI", "/free", "X-Original-Host", "evil.example.org",
		"X-Fluxgate-Rule-Set", "none", "X-Fluxgate-Status", "200", "X-Http-Method-Override", "GET",
	}
	c.get("/forbidden/x", forged...).refused(t, http.StatusForbidden)
	c.do(http.MethodPost, "/posts", nil, forged...).passes(t)
	c.do(http.MethodPost, "/posts", nil, forged...).refused(t, http.StatusTooManyRequests)
	c.get("/posts", forged...).passes(t)
	c.get("/host", append(forged, "Host", "api.example.org")...).passes(t)
	c.get("/host", append(forged, "Host", "api.example.org")...).refused(t, http.StatusTooManyRequests)
	if a := c.get("/host", append(forged, "Host", "www.example.org")...).passes(t); a.Backend.Host != "www.example.org" {
		t.Errorf("the backend sees %q", a.Backend.Host)
	}
}

func apiKey(t *testing.T, w *world) {
	c := w.client("127.0.1.8")
	c.get("/keys", "X-API-Key", "first").passes(t)
	c.get("/keys", "X-API-Key", "second").passes(t)
	c.get("/keys", "X-API-Key", "first").refused(t, http.StatusTooManyRequests)
}

func bodies(t *testing.T, w *world) {
	random := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{1, 1 << 20} {
		body := make([]byte, size)
		_, _ = random.Read(body)
		a := w.client("127.0.1.9").do(http.MethodPut, "/free", body).passes(t)
		if a.Backend.Method != http.MethodPut || a.Backend.Body != digest(body) {
			t.Errorf("of %d bytes the backend sees %s by %s", size, a.Backend.Body, a.Backend.Method)
		}
		// In pieces, with its size unknown.
		a = w.client("127.0.1.9").chunked("/free", body).passes(t)
		if a.Backend.Body != digest(body) {
			t.Errorf("of %d bytes in pieces the backend sees %s", size, a.Backend.Body)
		}
	}
}

func keepAlive(t *testing.T, w *world) {
	c := w.client("127.0.1.10")
	for range 3 {
		c.get("/limited/a").passes(t)
		c.do(http.MethodPost, "/free", []byte("body")).passes(t)
	}
	for range 3 {
		c.get("/limited/a").refused(t, http.StatusTooManyRequests)
		c.do(http.MethodPost, "/forbidden/x", []byte("body")).refused(t, http.StatusForbidden)
		c.get("/free").passes(t)
	}
	if n := c.dials.Load(); n != 1 {
		t.Errorf("the client needs %d connections", n)
	}
}

func head(t *testing.T, w *world) {
	c := w.client("127.0.1.11")
	for range 3 {
		c.do(http.MethodHead, "/limited/a", nil)
	}
	if a := c.do(http.MethodHead, "/limited/a", nil).refused(t, http.StatusTooManyRequests); len(a.Body) > 0 || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v", a)
	}
}

// A request with headers that are too large for the proxy or for fluxgate does
// not pass, even if the proxy fails open.
func TestProxy_LargeHeaders(t *testing.T) {
	for _, p := range frontproxy.All {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p.Start(t, w.at, true, slow)
			largeHeaders(t, w)
		})
	}
}

func largeHeaders(t *testing.T, w *world) {
	sizes := []int{1 << 10, 4 << 10, 8 << 10, 32 << 10, 64 << 10}
	for size := 13 << 10; size <= 16<<10; size += 256 { // HAProxy's buffer ends here
		sizes = append(sizes, size)
	}
	c := w.client("127.0.1.12")
	for _, size := range sizes {
		for place, send := range map[string]func(text string) (answer, error){
			"header": func(text string) (answer, error) { return c.try("/forbidden/x", "X-Large", text) },
			"query":  func(text string) (answer, error) { return c.try("/forbidden/x?" + text) },
			"headers": func(text string) (answer, error) {
				half := text[len(text)/2:]
				return c.try("/forbidden/x?"+half, "X-Large", half)
			},
		} {
			a, err := send(strings.Repeat("x", size))
			if err == nil && (a.Backend != nil || a.Status < 400 || a.Status > 499) {
				t.Errorf("%d bytes of %s: %v", size, place, a)
			}
		}
	}
}

// failsClosed is the last: Redis does not come back.
func failsClosed(t *testing.T, w *world) {
	c := w.client("127.0.1.13")
	c.get("/strict").passes(t)
	if err := w.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	a := c.get("/strict").refused(t, http.StatusServiceUnavailable)
	if !strings.Contains(string(a.Body), `"reason":"store-failure"`) {
		t.Errorf("%v", a)
	}
	c.get("/free").passes(t)
}

// A proxy fails as it is configured.
func TestProxy_FailureMode(t *testing.T) {
	for _, p := range frontproxy.All {
		for _, mode := range []string{"closed", "open"} {
			t.Run(p.Name+" "+mode, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				p.Start(t, w.at, mode == "open", "")
				c := w.client("127.0.2.1")
				without := func() {
					t.Helper()
					if mode == "open" {
						body := bytes.Repeat([]byte("body"), 1<<18)
						if a := c.do(http.MethodPost, "/forbidden/x", body).passes(t); a.Backend.Body != digest(body) || a.Backend.Method != http.MethodPost {
							t.Errorf("the backend sees %s by %s", a.Backend.Body, a.Backend.Method)
						}
						return
					}
					// Small, since HAProxy answers and hangs up while it is sent.
					if a := c.do(http.MethodPost, "/forbidden/x", []byte("body")); a.Backend != nil || a.Status < 500 || a.Status > 599 {
						t.Errorf("%v", a)
					}
				}
				denies := func() {
					t.Helper()
					var a answer
					testenv.Eventually(t, "the proxy asks fluxgate again", func() bool { a = c.get("/forbidden/x"); return a.Status == http.StatusForbidden })
					a.refused(t, http.StatusForbidden)
				}
				denies()

				w.stopFluxgate()
				without()
				without()
				w.startFluxgate(w.answers)
				denies()

				w.stopFluxgate()
				w.startFluxgate(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }))
				without()

				w.stopFluxgate()
				release := make(chan struct{})
				w.startFluxgate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}))
				before, began := w.asked.Load(), time.Now()
				without()
				if took := time.Since(began); took < time.Second || took > 30*time.Second {
					t.Errorf("it waited %v for a fluxgate that does not answer", took)
				}
				if n := w.asked.Load() - before; n != 1 {
					t.Errorf("it asked %d times: each may have taken a token", n)
				}
				close(release)
				w.stopFluxgate()
				w.startFluxgate(w.answers)
				denies()
			})
		}
	}
}

// A request does not pass if the script fails. HAProxy itself would continue with
// the next line.
func TestProxy_HAProxyScriptError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := frontproxy.HAProxy
	broken.Prepare = func(tb testing.TB, folder, config string, at frontproxy.Addresses) ([]string, string) {
		args, config := frontproxy.HAProxy.Prepare(tb, folder, config, at)
		script := filepath.Join(folder, "fluxgate.lua")
		text := frontproxy.Replace(tb, readFile(tb, script), "\tlocal status = ", "\terror('broken')\n\tlocal status = ")
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		return args, config
	}
	broken.Start(t, w.at, true, slow)
	w.client("127.0.3.1").get("/free").refused(t, http.StatusServiceUnavailable)
}
