package clientip_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// everyday are the requests that nearly all traffic is made of.
var everyday = []struct {
	name           string
	config         clientip.Config
	peer, line, is string
}{
	{"peer only", clientip.Config{}, "192.0.2.7:4711", "198.51.100.1", "192.0.2.7"},
	{"IPv6 peer only", clientip.Config{}, "[2001:db8::7]:4711", "", "2001:db8::7"},
	{"peer that is not trusted", clientip.Config{TrustedProxies: proxies}, "192.0.2.7:4711", "198.51.100.1", "192.0.2.7"},
	{"one entry", clientip.Config{TrustedProxies: proxies}, nearest, "192.0.2.7", "192.0.2.7"},
	{"two entries", clientip.Config{TrustedProxies: proxies}, nearest, "2001:db8::7, 10.0.0.2", "2001:db8::7"},
	{"two entries with ports and a zone", clientip.Config{TrustedProxies: proxies}, nearest, "[fe80::7%eth0]:4711, 10.0.0.2:80", "fe80::7"},
	{"CDN", clientip.Config{TrustedProxies: proxies, Header: "CF-Connecting-IP"}, nearest, "192.0.2.7", "192.0.2.7"},
}

func requestOf(config clientip.Config, peer, line string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	req.RemoteAddr = peer
	header := config.Header
	if header == "" {
		header = clientip.XForwardedFor
	}
	req.Header.Set(header, line)
	return req
}

// Everyday requests allocate nothing.
func TestResolver_Allocations(t *testing.T) {
	for _, c := range everyday {
		t.Run(c.name, func(t *testing.T) {
			r, req, want := newResolver(t, c.config), requestOf(c.config, c.peer, c.line), address(t, c.is)
			got := testing.AllocsPerRun(1_000, func() {
				if r.Addr(req) != want {
					t.Fatalf("the client is %v, want %v", r.Addr(req), want)
				}
			})
			if got > 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}

func BenchmarkAddr(b *testing.B) {
	for _, c := range everyday {
		b.Run(c.name, func(b *testing.B) {
			r, req := newResolver(b, c.config), requestOf(c.config, c.peer, c.line)
			b.ReportAllocs()
			for b.Loop() {
				r.Addr(req)
			}
		})
	}
}
