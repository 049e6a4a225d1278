package admin_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
)

// A rate-limited call is repeated after Retry-After. The test uses several values of
// it.
func TestClient_RateLimited(t *testing.T) {
	for after, wantAsked := range map[string]int64{"1": 2, "0": 1, "-5": 1, "3600": 1, "soon": 1, "": 1} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = w.Write([]byte(`{"name":"ada","roles":["read"]}`))
		}))
		client, err := admin.NewClient(server.URL, admin.ClientConfig{})
		do(t, err)
		_, err = client.Whoami(t.Context())
		if asked.Load() != wantAsked || (err == nil) != (wantAsked == 2) {
			t.Errorf("Retry-After %q: called %d times, %v", after, asked.Load(), err)
		}
		do(t, client.Close())
		server.Close()
	}
}
