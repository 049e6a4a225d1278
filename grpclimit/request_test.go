package grpclimit_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
)

// requestOf returns the request that the limiter gets for a call with metadata.
func requestOf(t *testing.T, method string, pairs []string, options ...grpclimit.Option) fluxgate.Request {
	t.Helper()
	limiter := newSeen()
	conn := limited(t, new(echo), limiter, options...)
	ctx := metadata.AppendToOutgoingContext(t.Context(), pairs...)
	if a := invoke(ctx, conn, method, "hello"); a.err != nil || len(limiter.requests) != 1 {
		t.Fatalf("%v after %d requests", a.err, len(limiter.requests))
	}
	return limiter.requests[0]
}

// The limiter gets the properties of the call.
func TestRequest_Properties(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		got := requestOf(t, method, []string{"X-Tenant", "acme"})
		if got.Method != http.MethodPost || got.Path != method || !strings.HasPrefix(got.Host, "127.0.0.1:") ||
			got.IP != netip.MustParseAddr("127.0.0.1") || !slices.Equal(got.Headers["x-tenant"], []string{"acme"}) {
			t.Errorf("asked about %+v", got)
		}
		if got.RuleSet != "" || got.UserID != "" || got.APIKey != "" || got.Attributes != nil || got.Cost != 0 || got.Peek {
			t.Errorf("made up in %+v", got)
		}
	})
}

// Rules match the method, the host and the metadata of a call.
func TestRequest_Rules(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		rule := perHour("tenants", 1)
		rule.Paths, rule.Methods = []string{"/test.Echo/*"}, []string{http.MethodPost}
		rule.When.Hosts, rule.When.Headers = []string{"127.0.0.1"}, map[string][]string{"X-Tenant": {"*"}}
		rule.Scope, rule.KeyFields = rules.ScopeComposite, []string{"header:X-Tenant"}
		conn := limited(t, new(echo), newEngine(t, []rules.Rule{rule}))
		for i, c := range []struct {
			tenant string
			want   codes.Code
		}{{"acme", codes.OK}, {"acme", codes.ResourceExhausted}, {"globex", codes.OK}} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", c.tenant)
			if a := invoke(ctx, conn, method, "hello"); a.code() != c.want {
				t.Errorf("call %d: %v, want %v", i, a.err, c.want)
			}
		}
	})
}

// Options set the fields of a request.
func TestRequest_Options(t *testing.T) {
	md := grpclimit.Metadata
	for _, c := range []struct {
		name   string
		option grpclimit.Option
		pairs  []string
		want   func(fluxgate.Request) bool
	}{
		{"a rule set", grpclimit.WithRuleSet("exports"), nil, func(r fluxgate.Request) bool { return r.RuleSet == "exports" }},
		{"a rule set by call", grpclimit.WithRuleSetFunc(md("x-set")), []string{"x-set", "gold"}, func(r fluxgate.Request) bool { return r.RuleSet == "gold" }},
		{"a cost", grpclimit.WithCost(12), nil, func(r fluxgate.Request) bool { return r.Cost == 12 && !r.Peek }},
		{"a cost by message", grpclimit.WithCostFunc(func(c *grpclimit.Call) int64 { return int64(len(c.Message.(*wrapperspb.StringValue).Value)) }), nil, func(r fluxgate.Request) bool { return r.Cost == 5 && !r.Peek }},
		{"a cost of 0", grpclimit.WithCostFunc(func(*grpclimit.Call) int64 { return 0 }), nil, func(r fluxgate.Request) bool { return r.Cost == 0 && r.Peek }},
		{"a user", grpclimit.WithUserFunc(md("X-User")), []string{"x-user", "ann"}, func(r fluxgate.Request) bool { return r.UserID == "ann" }},
		{"an API key", grpclimit.WithAPIKeyFunc(md("x-api-key")), []string{"x-api-key", "k1"}, func(r fluxgate.Request) bool { return r.APIKey == "k1" }},
		{"no API key", grpclimit.WithAPIKeyFunc(md("x-api-key")), nil, func(r fluxgate.Request) bool { return r.APIKey == "" }},
		{"a bearer token", grpclimit.WithAPIKeyFunc(grpclimit.BearerToken), []string{"authorization", "bearer  t0ken"}, func(r fluxgate.Request) bool { return r.APIKey == "t0ken" }},
		{"an attribute", grpclimit.WithAttribute("tenant", md("x-tenant")), []string{"x-tenant", "acme"}, func(r fluxgate.Request) bool { return maps.Equal(r.Attributes, map[string]string{"tenant": "acme"}) }},
		{"anything", grpclimit.WithAmend(func(c *grpclimit.Call, req *fluxgate.Request) error {
			deadline, _ := c.Context().Deadline()
			req.Attributes = map[string]string{"in a hurry": deadline.String()}
			return nil
		}), nil, func(r fluxgate.Request) bool { return r.Attributes["in a hurry"] != "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := requestOf(t, unary, c.pairs, c.option); !c.want(got) {
				t.Errorf("asked about %+v", got)
			}
		})
	}
}

// The handler may take another value than the limiter for the caller, so that one
// caller would have two buckets.
func TestMetadata_SeveralValuesAreRefused(t *testing.T) {
	for name, option := range map[string]grpclimit.Option{
		"user":      grpclimit.WithUserFunc(grpclimit.Metadata("x-caller")),
		"API key":   grpclimit.WithAPIKeyFunc(grpclimit.Metadata("x-caller")),
		"attribute": grpclimit.WithAttribute("tenant", grpclimit.Metadata("x-caller")),
		"token":     grpclimit.WithAPIKeyFunc(grpclimit.BearerToken),
	} {
		t.Run(name, func(t *testing.T) {
			conn := limited(t, new(echo), newSeen(), option)
			for values, want := range []codes.Code{codes.OK, codes.OK, codes.InvalidArgument} {
				md := metadata.MD{"x-caller": slices.Repeat([]string{"ada"}, values), "authorization": slices.Repeat([]string{"Bearer ada"}, values)}
				if a := invoke(metadata.NewOutgoingContext(t.Context(), md), conn, unary, "hello"); a.code() != want {
					t.Errorf("%d values: %v, want %v", values, a.err, want)
				}
			}
		})
	}
}

// The address is the peer's, or what trusted proxies say, from the right.
func TestClientIP_TrustedProxies(t *testing.T) {
	spoofed := []string{"x-forwarded-for", "6.6.6.6, 203.0.113.9", "x-real-ip", "198.51.100.4"}
	for _, c := range []struct {
		name   string
		config clientip.Config
		want   string
	}{
		{"no proxy is trusted", clientip.Config{}, "127.0.0.1"},
		{"another proxy is trusted", clientip.Config{TrustedProxies: []string{"10.0.0.0/8"}}, "127.0.0.1"},
		{"the peer is a trusted proxy", clientip.Config{TrustedProxies: []string{"127.0.0.1"}}, "203.0.113.9"},
		{"a chain of them", clientip.Config{TrustedProxies: []string{"127.0.0.1", "203.0.113.0/24"}}, "6.6.6.6"},
		{"in a header of its own", clientip.Config{TrustedProxies: []string{"127.0.0.1"}, Header: "X-Real-IP"}, "198.51.100.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resolver := fluxgate.Must(clientip.New(c.config))
			each(t, func(t *testing.T, method string) {
				if got := requestOf(t, method, spoofed, grpclimit.WithClientIP(resolver)); got.IP.String() != c.want {
					t.Errorf("the client is %v, want %s", got.IP, c.want)
				}
			})
		})
	}
}

// The peer of a unix socket has no address, also if it names its end like one.
func TestClientIP_UnixSocket(t *testing.T) {
	for name, c := range map[string]struct {
		config clientip.Config
		bound  string // the client's end
		want   netip.Addr
	}{
		"not trusted":           {clientip.Config{}, "", netip.Addr{}},
		"trusted":               {clientip.Config{TrustUnixSocket: true}, "", netip.MustParseAddr("203.0.113.9")},
		"named like an address": {clientip.Config{TrustedProxies: []string{"10.0.0.0/8"}}, "10.0.0.1:80", netip.Addr{}},
	} {
		for server, serve := range map[string]func(testing.TB, net.Listener, *echo, ...grpc.ServerOption){"gRPC": serveOn, "net/http": serveHTTP} {
			t.Run(name+", "+server, func(t *testing.T) {
				t.Chdir(t.TempDir())
				listener, err := net.Listen("unix", "s")
				if err != nil {
					t.Fatal(err)
				}
				limiter := newSeen()
				serve(t, listener, new(echo), behind(newLimit(t, limiter, grpclimit.WithClientIP(fluxgate.Must(clientip.New(c.config)))))...)
				conn := dial(t, "passthrough:///socket", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					dialer := new(net.Dialer)
					if c.bound != "" {
						dialer.LocalAddr = &net.UnixAddr{Name: c.bound, Net: "unix"}
					}
					return dialer.DialContext(ctx, "unix", "s")
				}))
				a := invoke(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "203.0.113.9"), conn, unary, "hello")
				if a.err != nil || limiter.requests[0].IP != c.want {
					t.Errorf("%v, the client is %v, want %v", a.err, limiter.requests[0].IP, c.want)
				}
			})
		}
	}
}

// serveHTTP serves gRPC with a server of net/http.
func serveHTTP(t testing.TB, listener net.Listener, service *echo, options ...grpc.ServerOption) {
	t.Helper()
	handler := grpc.NewServer(options...)
	handler.RegisterService(&echoService, service)
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
		handler.Stop()
	})
}
