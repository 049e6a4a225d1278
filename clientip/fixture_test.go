package clientip_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// proxies are trusted in most tests, one network of each family.
var proxies = []string{"10.0.0.0/8", "2001:db8:aaaa::/48"}

// resolution is what one request must be resolved to.
type resolution struct {
	name  string
	peer  string
	lines []string // of the configured header
	want  string   // empty for no address
}

// resolve runs each case through both entrances.
func resolve(t *testing.T, config clientip.Config, cases []resolution) {
	t.Helper()
	r := newResolver(t, config)
	name := config.Header
	if name == "" {
		name = clientip.XForwardedFor
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			req.RemoteAddr = c.peer
			for _, line := range c.lines {
				req.Header.Add(name, line)
			}
			want := address(t, c.want)
			if got := r.Addr(req); got != want {
				t.Errorf("the client of the request is %v, want %v", got, want)
			}
			if got := r.Resolve(c.peer, req.Header); got != want {
				t.Errorf("the client is %v, want %v", got, want)
			}
		})
	}
}

func newResolver(t testing.TB, config clientip.Config) *clientip.Resolver {
	t.Helper()
	r, err := clientip.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// address is the zero Addr for an empty string.
func address(t testing.TB, s string) netip.Addr {
	t.Helper()
	if s == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
