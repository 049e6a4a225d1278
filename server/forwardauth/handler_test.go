package forwardauth_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/server/forwardauth"
)

// The decision is about the client's request.
func TestHandler_ClientRequest(t *testing.T) {
	got := described(t, forwardauth.Config{}, asking("",
		"X-Forwarded-Method: PATCH", "X-Forwarded-Uri: /a%2Fb//c?path=/other", "X-Forwarded-Host: api.example.org", "X-Forwarded-For: 198.51.100.7", "Accept: text/html"))
	if got.Method != http.MethodPatch || got.Path != "/a%2Fb//c" || got.Host != "api.example.org" || got.IP != netip.MustParseAddr("198.51.100.7") {
		t.Errorf("it is %+v", got)
	}
	if accept := got.Headers["Accept"]; len(accept) != 1 || accept[0] != "text/html" {
		t.Errorf("rules see the headers %v", got.Headers)
	}
	if got.UserID != "" || got.APIKey != "" || len(got.Attributes) > 0 || got.RuleSet != "" {
		t.Errorf("nobody has said so: %+v", got)
	}
}

// Paths are taken as they were sent.
func TestHandler_PathAsSent(t *testing.T) {
	for uri, path := range map[string]string{
		"/":                          "/",
		"//evil.example.org/a":       "//evil.example.org/a",
		"/a;b=c?d":                   "/a;b=c",
		"/%e4/%2e%2e":                "/%e4/%2e%2e",
		"*":                          "*",
		"http://api.example.org/a?b": "/a",
	} {
		if got := described(t, forwardauth.Config{}, asking("", "X-Forwarded-Uri: "+uri)); got.Path != path {
			t.Errorf("%s: the path is %q", uri, got.Path)
		}
	}
}

// Each property is read from one header.
func TestHandler_OneHeaderEach(t *testing.T) {
	forged := []string{"X-Original-Method: PUT", "X-Original-Uri: /forged", "X-Original-Host: forged", "X-Real-Ip: 192.0.2.9"}
	got := described(t, forwardauth.Config{}, asking("", append(forged, "X-Forwarded-Host: honest")...))
	if got.Method != http.MethodGet || got.Path != "/items" || got.Host != "honest" || got.IP != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a client decides: %+v", got)
	}
	got = described(t, forwardauth.Config{
		MethodHeader: "x-original-method", URIHeader: "X-Original-URI", HostHeader: "X-Original-Host", Proxies: clientip.Config{TrustedProxies: []string{"127.0.0.1"}, Header: "X-Real-IP"},
	}, asking("", append(forged, "X-Forwarded-Host: other", "X-Forwarded-For: 192.0.2.1")...))
	if got.Method != http.MethodPut || got.Path != "/forged" || got.Host != "forged" || got.IP != netip.MustParseAddr("192.0.2.9") {
		t.Errorf("what is configured is not read: %+v", got)
	}
}

// Identities come from configured headers only.
func TestHandler_IdentityHeaders(t *testing.T) {
	headers := []string{"X-User-Id: alice", "X-API-Key: secret", "X-Tenant: acme", "X-Fluxgate-Rule-Set: partners"}
	got := described(t, forwardauth.Config{}, asking("", headers...))
	if got.UserID != "" || got.APIKey != "" || len(got.Attributes) > 0 || got.RuleSet != "" {
		t.Errorf("a client decides: %+v", got)
	}
	config := forwardauth.Config{
		UserHeader: "x-user-id", APIKeyHeader: "X-Api-Key", Attributes: map[string]string{"tenant": "X-Tenant", "plan": "X-Plan"},
	}
	got = described(t, config, asking("", headers...))
	if got.UserID != "alice" || got.APIKey != "secret" || len(got.Attributes) != 1 || got.Attributes["tenant"] != "acme" || got.RuleSet != "" {
		t.Errorf("it is %+v", got)
	}
	if got = described(t, config, asking("?ruleSet=internal", headers...)); got.RuleSet != "internal" {
		t.Errorf("the proxy's query says internal, and it is %q", got.RuleSet)
	}
}

// Only trusted proxies are answered.
func TestHandler_TrustedProxies(t *testing.T) {
	networks := clientip.Config{TrustedProxies: []string{"10.1.0.0/16", "2001:db8::1"}}
	for _, test := range []struct {
		proxies clientip.Config
		peer    string
		trusted bool
	}{
		{clientip.Config{}, "127.0.0.1:1", true},
		{clientip.Config{}, "127.8.9.10:1", true},
		{clientip.Config{}, "[::1]:1", true},
		{clientip.Config{}, "[::ffff:127.0.0.1]:1", true},
		{clientip.Config{}, "10.1.2.3:1", false},
		{clientip.Config{}, "[2001:db8::1]:1", false},
		{clientip.Config{}, "255.255.255.254:1", false},
		{clientip.Config{}, "", false},
		{clientip.Config{}, "@", false},
		{networks, "10.1.2.3:1", true},
		{networks, "[2001:db8::1]:1", true},
		{networks, "10.2.0.1:1", false},
		{networks, "127.0.0.1:1", false},
		{clientip.Config{TrustUnixSocket: true}, "@", true},
		{clientip.Config{TrustUnixSocket: true}, "127.0.0.1:1", false},
		{clientip.Config{TrustedProxies: []string{"10.1.2.3"}, Header: "X-Real-IP"}, "10.1.2.3:1", true},
		{clientip.Config{TrustedProxies: []string{"10.1.2.3"}, Header: "X-Real-IP"}, "10.1.2.4:1", false},
		{clientip.Config{TrustedProxies: []string{"10.1.2.3"}, Header: "CF-Connecting-IP"}, "10.1.2.3:1", true},
	} {
		asked := 0
		handler := newHandler(t, limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
			asked++
			return fluxgate.Decision{Allowed: true}, nil
		}), forwardauth.Config{Proxies: test.proxies})
		r := asking("?deny=401", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1")
		r.RemoteAddr = test.peer
		answer := record(handler, r)
		switch {
		case test.trusted && (answer.Code != http.StatusNoContent || asked != 1):
			t.Errorf("%s under %v: %d %s", test.peer, test.proxies, answer.Code, answer.Body)
		case !test.trusted && (answer.Code != http.StatusForbidden || asked != 0 || answer.Header().Get("X-Fluxgate-Status") != ""):
			t.Errorf("%s under %v: %d %v", test.peer, test.proxies, answer.Code, answer.Header())
		}
	}
}

// A proxy on a unix socket is trusted by the socket, not by its name.
func TestHandler_UnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var got fluxgate.Request
	server := httptest.NewUnstartedServer(newHandler(t, limiterFunc(func(_ context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
		got = *req
		return fluxgate.Decision{Allowed: true}, nil
	}), forwardauth.Config{Proxies: clientip.Config{TrustUnixSocket: true}}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	r := asking("", "X-Forwarded-For: 198.51.100.7")
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", "fluxgate"
	res, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent || got.IP != netip.MustParseAddr("198.51.100.7") {
		t.Errorf("%d for %v", res.StatusCode, got.IP)
	}
}

// Malformed requests of a proxy are refused.
func TestHandler_Malformed(t *testing.T) {
	handler := newHandler(t, limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
		t.Error("the limiter is asked")
		return fluxgate.Decision{}, nil
	}), forwardauth.Config{
		UserHeader: "x-user-id", APIKeyHeader: "X-API-Key", Attributes: map[string]string{"tenant": "x-tenant"},
		Proxies: clientip.Config{TrustedProxies: []string{"127.0.0.1"}, Header: "X-Real-IP"},
	})
	for name, r := range map[string]*http.Request{
		"no method":        asking("", "X-Forwarded-Method:"),
		"a bad method":     asking("", "X-Forwarded-Method: GET /"),
		"two methods":      asking("", "X-Forwarded-Method: GET", "X-Forwarded-Method: GET"),
		"no path":          asking("", "X-Forwarded-Uri:"),
		"two paths":        asking("", "X-Forwarded-Uri: /a", "X-Forwarded-Uri: /b"),
		"a bad path":       asking("", "X-Forwarded-Uri: /%zz"),
		"a relative path":  asking("", "X-Forwarded-Uri: items"),
		"an opaque path":   asking("", "X-Forwarded-Uri: mailto:items"),
		"a host and path":  asking("", "X-Forwarded-Host: example.org/a?"),
		"a host and user":  asking("", "X-Forwarded-Host: x@example.org"),
		"two ports":        asking("", "X-Forwarded-Host: example.org:80:80"),
		"a bad port":       asking("", "X-Forwarded-Host: example.org:http"),
		"a bad address":    asking("", "X-Forwarded-Host: [::1"),
		"two hosts":        asking("", "X-Forwarded-Host: a", "X-Forwarded-Host: b"),
		"a fragment":       asking("", "X-Forwarded-Uri: /a#/../b"),
		"a late fragment":  asking("", "X-Forwarded-Uri: /a?b#c"),
		"a far fragment":   asking("", "X-Forwarded-Uri: http://example.org/a#b"),
		"a backslash":      asking("", `X-Forwarded-Uri: /a\b?c`),
		"two users":        asking("", "X-User-Id: a", "X-User-Id: b"),
		"two API keys":     asking("", "X-API-Key: a", "X-API-Key: a"),
		"two attributes":   asking("", "X-Tenant: a", "X-Tenant: b"),
		"two addresses":    asking("", "X-Real-Ip: 192.0.2.1", "X-Real-Ip: 192.0.2.2"),
		"an unknown query": asking("?rule-set=a"),
		"a query twice":    asking("?ruleSet=a&ruleSet=b"),
		"a bad query":      asking("?ruleSet=%zz"),
		"an odd status":    asking("?deny=200"),
		"no status":        asking("?deny=x"),
	} {
		if answer := record(handler, r); answer.Code != http.StatusBadRequest || answer.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
		}
	}
	// A client that can spoil the question is not let in by a proxy that fails
	// open: nginx sees a rejection.
	answer := record(handler, asking("?deny=403", "X-Forwarded-Uri: /%zz"))
	if answer.Code != http.StatusForbidden || answer.Header().Get("X-Fluxgate-Status") != "400" {
		t.Errorf("%d %v", answer.Code, answer.Header())
	}
}
