package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
)

// startHAProxy balances over two servers, and asks them whether they are ready.
func startHAProxy(t *testing.T, first, second string) (addr string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal("there is no haproxy: install the Debian package haproxy")
	}
	addr = testenv.FreeAddr(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, file, fmt.Sprintf(`
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
  timeout check 5s
  option redispatch
  retries 3
  retry-on conn-failure
listen fluxgate
  bind %s
  balance roundrobin
  option httpchk GET /readyz
  server first %s check inter 50ms fall 1 rise 1
  server second %s check inter 50ms fall 1 rise 1
`, addr, first, second))
	cmd := exec.Command(program, "-db", "-f", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "haproxy answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return addr
}

// Two servers that share a Redis are restarted one after the other behind a real
// load balancer and under load, with the default delay, without a failed request.
func TestShutdown_RollingRestart(t *testing.T) {
	testenv.SkipShort(t)
	defer http.DefaultClient.CloseIdleConnections()
	redis := testenv.StartStandalone(t, testenv.Config{})
	rules := rulesFile(t, 10_000_000)
	addrs := []string{testenv.FreeAddr(t), testenv.FreeAddr(t)}
	launch := func(i int) *running {
		return start(t, "redis.uri="+redis.URI(), "rules.file="+rules, "redis.timeout=5s", "server.http="+addrs[i], "server.drain.delay="+config.Defaults().Server.Drain.Delay.String())
	}
	servers := []*running{launch(0), launch(1)}
	balancer := startHAProxy(t, addrs[0], addrs[1])

	var served, failed atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for range 16 {
		clients.Go(func() {
			for !stop.Load() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+balancer+"/v1/check", strings.NewReader(`{"userId":"u"}`))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := client.Do(req)
				if err != nil {
					failed.Add(1)
					t.Errorf("after %d requests: %v", served.Load(), err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					failed.Add(1)
					t.Errorf("after %d requests: %d %s %v", served.Load(), res.StatusCode, body, err)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range servers {
		before := served.Load()
		testenv.Eventually(t, "there is load", func() bool { return served.Load() > before+500 || failed.Load() > 0 })
		servers[i].end(t)
		servers[i] = launch(i)
		testenv.Eventually(t, "it is ready again", func() bool {
			return servers[i].do(t, http.MethodGet, "/readyz", "").status == http.StatusOK
		})
		time.Sleep(200 * time.Millisecond) // the balancer looks every 50 ms
	}
	stop.Store(true)
	clients.Wait()
	for _, s := range servers {
		s.stop() // both drain at once
	}
	t.Logf("%d requests served, %d failed", served.Load(), failed.Load())
}
