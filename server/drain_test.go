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

// No request of clients with persistent connections fails while the server
// drains. A client that is asked to close its connection stops, as a load
// balancer would.
func TestShutdown_Drain(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000_000), "server.drain.delay=2s")
	var served, failed, closed atomic.Int64
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
					closed.Add(1)
					return
				}
				time.Sleep(5 * time.Millisecond) // without it, the clients would leave no core to others
			}
		})
	}
	testenv.Eventually(t, "there is load", func() bool { return served.Load() > 1_000 })
	begun := time.Now()
	r.end(t)
	clients.Wait()
	t.Logf("%d requests served, %d failed, %d of 32 clients were asked to close; it took %v to end", served.Load(), failed.Load(), closed.Load(), time.Since(begun))
	if closed.Load() != 32 {
		t.Errorf("%d clients were asked to close", closed.Load())
	}
}
