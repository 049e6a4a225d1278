package forwardauth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
)

// A backend may decode %2F and %2e and resolve dot segments, or not. Whichever
// it does, a handler with a limit is never reached uncounted, also where another
// reading of the path has an allow rule.
func TestProxies_AmbiguousPaths(t *testing.T) {
	throughEveryProxy(t, func(t *testing.T, _ *frontproxy.Proxy, w *world) {
		c := w.client("127.0.5.1")
		for range 3 {
			c.get("/limited/a").passes(t)
			c.get("/search/a").passes(t)
		}
		for _, target := range []string{
			// limited for a backend that does not decode or resolve
			"/limited/%2e%2e/healthz", "/limited/%2E%2e/healthz", "/limited/..%2fhealthz", "/limited/..%2Fhealthz", "/limited/%2e%2e%2fhealthz",
			"/limited/../healthz", "/limited/a/../../healthz", "/limited/./../healthz", "/limited/a%23/../../healthz", "/search/a%2Fb", "/search/a%2f..%2f..%2fhealthz",
			// limited for one that does
			"/healthz/../limited/a", "/healthz/%2e%2e/limited/a", "/healthz%2f..%2flimited/a", "//limited/a", "/limited//a", "//evil/limited/a", "/x/..%2flimited%2fa",
		} {
			a := w.raw(t, "127.0.5.1", request(target))
			if a.Status != http.StatusTooManyRequests || a.Backend != nil {
				t.Errorf("%s reaches the backend uncounted: %v", target, a)
			}
		}
		for range 4 {
			if a := c.get("/healthz").passes(t); strings.Contains(a.Header.Get("RateLimit"), "per-ip") {
				t.Errorf("/healthz is counted: %v", a)
			}
		}
	})
}
