package forwardauth_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
)

// throughEveryProxy runs a test behind each proxy, with the snippet as shipped.
func throughEveryProxy(t *testing.T, test func(t *testing.T, p *frontproxy.Proxy, w *world)) {
	for _, p := range frontproxy.All {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p.Start(t, w.at, false, slow)
			test(t, p, w)
		})
	}
}

// request is an HTTP/1.1 request as it goes over the wire.
func request(target string, lines ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: example.org\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
}

// Any number of header lines is answered, and the proxy goes on answering.
// HAProxy 2.6 crashes when its Lua sends about 100.
func TestProxies_ManyHeaderLines(t *testing.T) {
	throughEveryProxy(t, func(t *testing.T, p *frontproxy.Proxy, w *world) {
		for _, lines := range []int{60, 80, 90, 93, 94, 95, 96, 97, 98, 99, 100, 120, 200} {
			for _, name := range []string{"X-Extra-%d: 1", "X-API-Key: %d"} {
				var extra []string
				for i := range lines {
					extra = append(extra, fmt.Sprintf(name, i))
				}
				a := w.raw(t, "127.0.4.1", request("/free", extra...))
				refused := a.Status == http.StatusBadRequest || a.Status == http.StatusRequestHeaderFieldsTooLarge
				if (a.Status != http.StatusOK || a.Backend == nil) && !refused {
					t.Errorf("%d lines of %s: %v", lines, name, a)
				}
				if p == &frontproxy.HAProxy && lines > 64 && a.Status != http.StatusBadRequest {
					t.Errorf("%d lines of %s: %v", lines, name, a)
				}
			}
		}
		// Commas do not make a line into several.
		w.raw(t, "127.0.4.1", request("/free", "Accept: "+strings.Repeat("a, ", 200))).passes(t)
		w.client("127.0.4.2").get("/free").passes(t)
	})
}

// fluxgate gets what HAProxy says itself and the headers that its
// configuration names, each with all its lines.
func TestHAProxy_HeadersForFluxgate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	frontproxy.HAProxy.Start(t, w.at, false, slow)
	got := make(chan http.Header, 1)
	w.stopFluxgate()
	w.startFluxgate(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got <- r.Header
		rw.WriteHeader(http.StatusNoContent)
	}))
	w.raw(t, "127.0.4.8", request("/a?b", "Cookie: c", "X-API-Key: one", "X-Api-Key: two", "Traceparent: t", "X-Forwarded-Uri: /d", "TE: trailers", "Content-Length: 0")).passes(t)
	header := <-got
	for _, own := range []string{"User-Agent", "Accept", "Accept-Encoding"} {
		header.Del(own) // HAProxy's client adds them
	}
	want := http.Header{
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/a?b"}, "X-Forwarded-Host": {"example.org"}, "X-Forwarded-For": {"127.0.4.8"},
		"X-Api-Key": {"one", "two"},
	}
	if !maps.EqualFunc(header, want, slices.Equal) {
		t.Errorf("it gets %v", header)
	}
}

// A target with a raw #, or a \ in its path, never reaches the backend: Go reads
// both as part of a segment, Node ends the path at # and reads \ as a slash.
func TestProxies_FragmentInTarget(t *testing.T) {
	throughEveryProxy(t, func(t *testing.T, p *frontproxy.Proxy, w *world) {
		for range 3 {
			w.client("127.0.4.3").get("/limited/a").passes(t)
		}
		for _, target := range []string{
			"/limited/a#/../../healthz", "/limited/a#", "/limited/a?b#/../healthz", "/#/limited/a", "http://example.org/limited/a#/../../healthz",
			`/limited\a`, `/limited/a\..\..\healthz`,
		} {
			a := w.raw(t, "127.0.4.3", request(target))
			if p == &frontproxy.Caddy { // it encodes both in what fluxgate and the backend get
				if a.Backend != nil && strings.ContainsAny(a.Backend.URI, `#\`) {
					t.Errorf("%s: the backend gets %s", target, a.Backend.URI)
				}
			} else if a.Status != http.StatusBadRequest || a.Backend != nil {
				t.Errorf("%s: %v", target, a)
			}
		}
		w.raw(t, "127.0.4.3", request(`/free?path=C:\dir`)).passes(t) // as browsers send it
	})
}

// nginx refuses such a target also without fluxgate.
func TestNginx_FragmentWithoutFluxgate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	frontproxy.Nginx.Start(t, w.at, true, slow)
	w.stopFluxgate()
	w.client("127.0.4.4").get("/limited/a").passes(t)
	for _, target := range []string{"/limited/a#/../../healthz", `/limited\a`} {
		w.raw(t, "127.0.4.4", request(target)).refused(t, http.StatusBadRequest)
	}
}

// The backend is asked for no protocol but WebSocket: after a switch to HTTP/2
// its requests do not pass the proxy's rules.
func TestProxies_UpgradeToHTTP2(t *testing.T) {
	throughEveryProxy(t, func(t *testing.T, p *frontproxy.Proxy, w *world) {
		settings := "HTTP2-Settings: AAMAAABkAAQAAP__"
		for _, lines := range [][]string{
			{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", settings},
			{"Connection: Upgrade", "Upgrade: h2c", settings},
			{"Connection: upgrade", "Upgrade: H2C"},
			{"Connection: Upgrade", "Upgrade: websocket, h2c", settings},
			{"Connection: Upgrade", "Upgrade: h2c, websocket", settings},
			{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c", settings},
			{"Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket", settings},
			{"Connection: Upgrade", "Upgrade:", "Upgrade: h2c", settings},
			{"Connection: Upgrade", "Upgrade: , h2c", settings},
			{"Connection: Upgrade", "Upgrade: h2c,", settings},
			{"Connection: Upgrade", "Upgrade:\th2c", settings},
			{"Connection: Upgrade", `Upgrade: "h2c"`, settings},
			{"Connection: Upgrade", "Upgrade: HTTP/2.0", settings},
			{"Connection: Upgrade", "Upgrade: websocket/13"},
			{"Connection: keep-alive", "Connection: Upgrade", "Upgrade: h2c", settings},
		} {
			a := w.raw(t, "127.0.4.5", request("/healthz", lines...))
			switch {
			case a.Status == http.StatusBadRequest && a.Backend == nil:
			case p == &frontproxy.Nginx && a.Backend != nil && len(a.Backend.Headers["Upgrade"]) == 0:
			default:
				t.Errorf("%q: %v", lines, a)
			}
		}
		websocket := []string{"Connection: Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
		a := w.raw(t, "127.0.4.6", request("/healthz", websocket...))
		if p != &frontproxy.Nginx && a.Status != http.StatusSwitchingProtocols {
			t.Errorf("WebSocket does not pass: %v", a)
		}
		for range 3 {
			w.raw(t, "127.0.4.6", request("/limited/a", websocket...))
		}
		w.raw(t, "127.0.4.6", request("/limited/a", websocket...)).refused(t, http.StatusTooManyRequests)
	})
}

// An API key that is there twice is refused: fluxgate and the backend could
// take different ones.
func TestProxies_RepeatedAPIKey(t *testing.T) {
	throughEveryProxy(t, func(t *testing.T, _ *frontproxy.Proxy, w *world) {
		for _, lines := range [][]string{
			{"X-API-Key: first", "X-API-Key: second"},
			{"X-API-Key: first", "X-API-Key: first"},
			{"X-API-Key: first", "X-Other: 1", "x-api-key:"},
		} {
			for _, target := range []string{"/keys", "/free"} {
				w.raw(t, "127.0.4.7", request(target, lines...)).refused(t, http.StatusBadRequest)
			}
		}
		w.raw(t, "127.0.4.7", request("/keys", "X-API-Key: first")).passes(t)
	})
}
