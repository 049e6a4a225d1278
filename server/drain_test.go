package server_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// TestShutdown_Drain has clients on connections that they
// keep, as fast as they can, while the server is told to end. A client that is
// told to close its connection goes elsewhere, as a load balancer would.
func TestShutdown_Drain(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000_000), "server.drain.delay=2s")
	var served, failed, told atomic.Int64
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/check", strings.NewReader(`{"userId":"u"}`))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := r.client.Do(req)
				if err != nil {
					failed.Add(1)
					t.Errorf("after %d requests: %v", served.Load(), err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), `"allowed":true`) {
					failed.Add(1)
					t.Errorf("%v, %d %s", err, res.StatusCode, body)
					return
				}
				served.Add(1)
				if res.Close {
					told.Add(1)
					return
				}
			}
		})
	}
	testenv.Eventually(t, "there is load", func() bool { return served.Load() > 1_000 })
	begun := time.Now()
	r.end(t)
	clients.Wait()
	t.Logf("%d requests served, %d failed, %d of 32 clients were told to go; it took %v to end", served.Load(), failed.Load(), told.Load(), time.Since(begun))
	if told.Load() != 32 {
		t.Errorf("%d clients were told to go", told.Load())
	}
}
