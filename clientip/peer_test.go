package clientip_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// The peer is the client without trusted proxies.
func TestResolver_PeerOnly(t *testing.T) {
	resolve(t, clientip.Config{}, []resolution{
		{"an IPv4 peer", "192.0.2.7:4711", nil, "192.0.2.7"},
		{"an IPv6 peer", "[2001:db8::7]:4711", nil, "2001:db8::7"},
		{"a peer with a forged header", "192.0.2.7:4711", []string{"198.51.100.1"}, "192.0.2.7"},
		{"a private peer with a forged header", "10.0.0.1:4711", []string{"198.51.100.1"}, "10.0.0.1"},
		{"a peer of this machine with a forged header", "127.0.0.1:4711", []string{"198.51.100.1"}, "127.0.0.1"},
		{"an IPv4 peer on an IPv6 socket", "[::ffff:192.0.2.7]:4711", nil, "192.0.2.7"},
		{"a peer with a zone", "[fe80::7%eth0]:4711", nil, "fe80::7"},
		{"a peer without a port", "192.0.2.7", nil, "192.0.2.7"},
		{"an IPv6 peer without a port", "2001:db8::7", nil, "2001:db8::7"},
		{"an IPv6 peer in brackets without a port", "[2001:db8::7]", nil, "2001:db8::7"},
		{"a peer whose address is garbage", "somewhere", []string{"198.51.100.1"}, ""},
		{"a peer with the name of a host", "localhost:4711", nil, ""},
		{"a peer with the address of untrusting", "0.0.0.0:4711", nil, ""},
		{"a peer with whitespace around it", " 192.0.2.7:4711", nil, ""},
		{"a peer with an empty port", "192.0.2.7:", nil, ""},
		{"a nameless peer on a unix socket", "@", []string{"198.51.100.1"}, ""},
		{"a peer without anything", "", []string{"198.51.100.1"}, ""},
	})
}

// The zero resolver trusts no proxy.
func TestResolver_Zero(t *testing.T) {
	var r clientip.Resolver
	header := http.Header{"X-Forwarded-For": {"198.51.100.1"}, "": {"198.51.100.1"}}
	if got := r.Resolve("10.0.0.1:80", header); got != address(t, "10.0.0.1") {
		t.Errorf("the client is %v", got)
	}
	if got := r.Resolve("", header); got.IsValid() {
		t.Errorf("the client is %v, want none", got)
	}
}

// Only the configured header is read.
func TestResolver_OtherHeaders(t *testing.T) {
	values := map[string]string{
		"X-Forwarded-For": "198.51.100.1", "Forwarded": "for=198.51.100.2", "Cf-Connecting-Ip": "198.51.100.3",
		"True-Client-Ip": "198.51.100.4", "X-Real-Ip": "198.51.100.5", "X-Client-Ip": "198.51.100.6", "X-Forwarded": "198.51.100.7",
	}
	for _, c := range []struct{ configured, read, want string }{
		{"", "X-Forwarded-For", "198.51.100.1"},
		{"x-forwarded-for", "X-Forwarded-For", "198.51.100.1"},
		{"CF-Connecting-IP", "Cf-Connecting-Ip", "198.51.100.3"},
		{"true-client-ip", "True-Client-Ip", "198.51.100.4"},
		{"X-Real-IP", "X-Real-Ip", "198.51.100.5"},
	} {
		t.Run("by the name "+c.configured, func(t *testing.T) {
			r := newResolver(t, clientip.Config{TrustedProxies: proxies, Header: c.configured})
			all, others, lower := http.Header{}, http.Header{}, http.Header{}
			for name, value := range values {
				all[name] = []string{value}
				lower[strings.ToLower(name)] = []string{value}
				if name != c.read {
					others[name] = []string{value}
				}
			}
			for _, is := range []struct {
				what   string
				header http.Header
				want   string
			}{{"all headers", all, c.want}, {"all in lower case", lower, c.want}, {"all but it", others, "10.0.0.1"}, {"none", nil, "10.0.0.1"}} {
				if got := r.Resolve(nearest, is.header); got != address(t, is.want) {
					t.Errorf("with %s the client is %v, want %v", is.what, got, is.want)
				}
			}
		})
	}
}

// A trusted unix socket names its client.
func TestResolver_UnixSocket(t *testing.T) {
	resolve(t, clientip.Config{TrustUnixSocket: true}, []resolution{
		{"is a proxy where it is nameless", "@", []string{"192.0.2.7"}, "192.0.2.7"},
		{"is a proxy where it has nothing", "", []string{"192.0.2.7"}, "192.0.2.7"},
		{"is a proxy where it has an abstract name", "@proxy", []string{"192.0.2.7"}, "192.0.2.7"},
		{"is a proxy where it has a path", "/run/proxy.sock", []string{"192.0.2.7"}, "192.0.2.7"},
		{"has no address if it names none", "@", nil, ""},
		{"has no address if it names garbage", "@", []string{"192.0.2.7, unknown"}, ""},
		{"hides what the client forged", "@", []string{"198.51.100.1, 192.0.2.7"}, "192.0.2.7"},
		{"does not make other peers proxies", "127.0.0.1:80", []string{"192.0.2.7"}, "127.0.0.1"},
		{"does not make garbage a proxy", "somewhere", []string{"192.0.2.7"}, ""},
	})
	resolve(t, clientip.Config{TrustUnixSocket: true, Header: "X-Real-IP"}, []resolution{
		{"is a proxy for other headers too", "@", []string{"192.0.2.7"}, "192.0.2.7"},
	})
}

// The kind of the socket, not the name of the peer, decides what a peer is.
func TestResolver_UnixPeerName(t *testing.T) {
	r := newResolver(t, clientip.Config{TrustedProxies: proxies, TrustUnixSocket: true})
	untrusting := newResolver(t, clientip.Config{TrustedProxies: proxies})
	for _, c := range []struct {
		name, socket, peer string
		want, untrusted    string
	}{
		{"a client that names its socket like a proxy", "unix", "10.0.0.1:80", "192.0.2.7", ""},
		{"a client that names its socket like another client", "unix", "198.51.100.1:80", "192.0.2.7", ""},
		{"a peer on a packet socket", "unixpacket", "@", "192.0.2.7", ""},
		{"a peer on TCP that has no name", "tcp", "", "", ""},
		{"a peer on TCP that is called like a socket", "tcp", "@", "", ""},
		{"a proxy on TCP", "tcp", "10.0.0.1:80", "192.0.2.7", "192.0.2.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := requestOn(t, c.socket)
			req.RemoteAddr = c.peer
			req.Header.Set(clientip.XForwardedFor, "192.0.2.7")
			if got := r.Addr(req); got != address(t, c.want) {
				t.Errorf("the client is %v, want %q", got, c.want)
			}
			if got := untrusting.Addr(req); got != address(t, c.untrusted) {
				t.Errorf("where unix sockets are not trusted the client is %v, want %q", got, c.untrusted)
			}
		})
	}
}

// Requests of a real server.
func TestResolver_RealServer(t *testing.T) {
	r := newResolver(t, clientip.Config{TrustedProxies: []string{"127.0.0.1", "::1"}})
	answers := make(chan netip.Addr, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { answers <- r.Addr(req) }))
	defer server.Close()
	for name, want := range map[string]string{"": "127.0.0.1", "X-FORWARDED-FOR": "192.0.2.7"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			req.Header[name] = []string{"198.51.100.1", "192.0.2.7"}
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := <-answers; got != address(t, want) {
			t.Errorf("with header %q the client is %v, want %v", name, got, want)
		}
	}
}
