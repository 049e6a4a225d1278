package grpclimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/receipt"
)

// The interceptors give the same answers over a client and a server.
func TestInterceptors_Client(t *testing.T) {
	rule := perHour("keys", 2)
	rule.Scope, rule.When.Headers = rules.ScopeAPIKey, map[string][]string{"X-Tenant": {"acme"}}
	api := fluxgate.Must(check.New(check.Config{Limiter: newEngine(t, []rules.Rule{rule}), Issuer: fluxgate.Must(receipt.NewIssuer(receipt.Config{}))}))
	mux := http.NewServeMux()
	for pattern, handler := range api.Routes() {
		mux.Handle(pattern, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	limiter := fluxgate.Must(client.New(server.URL, client.Config{}))
	t.Cleanup(func() { _ = limiter.Close() })

	conn := limited(t, new(echo), limiter, grpclimit.WithAPIKeyFunc(grpclimit.BearerToken))
	each(t, func(t *testing.T, method string) {
		// A caller of its own, with binary metadata that is not UTF-8.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+method, "x-tenant", "acme", "trace-bin", "\xff\x00")
		for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
			a := invoke(ctx, conn, method, "hello")
			if a.code() != want || len(rateLimitHeaders(a.header)) != 5 {
				t.Errorf("%v, %v", a.err, a.header)
			}
			if d := detailsOf(t, a.err); (want == codes.OK) == (d.quota != nil && d.retry != nil) {
				t.Errorf("%v", d)
			}
		}
	})
}
