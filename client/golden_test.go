package client_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/httplimit/limittest"
	"github.com/fluxgate/fluxgate/rules"
)

// The middleware gives the golden responses over a client and a server.
func TestClient_Middleware(t *testing.T) {
	limittest.Run(t, func(t *testing.T, engine *fluxgate.Engine) fluxgate.Limiter {
		server := serve(t, handler(t, engine))
		return newClient(t, server.URL, client.Config{MaxWait: time.Second})
	})
}

// Without a server a client responds as an engine does without its store.
func TestClient_MiddlewareStoreUnavailable(t *testing.T) {
	share := func() *fluxgate.Engine { return engineOver(t, newStore(t), []rules.Rule{perHour("orders", 2)}) }
	for _, c := range []struct {
		golden   string
		mode     rules.OnFailure
		fallback *fluxgate.Engine
		before   int
	}{
		{"store-failure-open", rules.FailOpen, nil, 0},
		{"store-failure-closed", rules.FailClosed, nil, 0},
		{"store-failure-local", rules.FailLocal, share(), 0},
		{"store-failure-local-rejected", rules.FailLocal, share(), 2},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var heard failures
			limiter := newClient(t, unusedURL(t), client.Config{OnFailure: c.mode, Fallback: c.fallback, Failed: heard.hear})
			got := limittest.Respond(t, limiter, c.before, "")
			limittest.Compare(t, c.golden, got)
			if n := heard.count.Load(); n != int64(c.before+1) {
				t.Errorf("%d failures were told of, want %d", n, c.before+1)
			}
		})
	}
}
