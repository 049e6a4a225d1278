package clientip_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// requestOn is a request as a server gets it on a kind of socket.
func requestOn(t *testing.T, network string) *http.Request {
	t.Helper()
	var local net.Addr = &net.UnixAddr{Net: network, Name: "/run/server.sock"}
	if network == "tcp" {
		local = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	}
	req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	return req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, local))
}

// A client whose socket file is named like a trusted proxy is not trusted.
func TestResolver_RealUnixSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	const posed = "10.0.0.1:80"
	r := newResolver(t, clientip.Config{TrustedProxies: proxies})
	type seen struct {
		peer   string
		client netip.Addr
	}
	answers := make(chan seen, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		answers <- seen{req.RemoteAddr, r.Addr(req)}
	}))
	server.Listener.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "server.sock")
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.UnixAddr{Net: "unix", Name: posed}}
			return d.DialContext(ctx, "unix", "server.sock")
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(clientip.XForwardedFor, "198.51.100.1")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := <-answers; got != (seen{posed, netip.Addr{}}) {
		t.Errorf("the server saw %q and took it for %v, want %q and no address", got.peer, got.client, posed)
	}
}
