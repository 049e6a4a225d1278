package cli

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// SIGTERM loses no request of a real process under load on persistent connections.
func TestServe_SIGTERM(t *testing.T) {
	testenv.SkipShort(t)
	binary := testenv.Fluxgate(t)
	addr := testenv.FreeAddr(t)
	cmd := exec.Command(binary, "serve", "--set", "server.drain.delay=2s", "--set", "server.http="+addr, "--set", "server.admin=", "--set", "redis.enabled=false",
		"--set", "mongo.enabled=false", "--set", "rules.file=../../examples/rules.yaml")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	check := func() (last bool, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/check", strings.NewReader(`{"path":"/free"}`))
		if err != nil {
			return true, err
		}
		res, err := client.Do(req)
		if err != nil {
			return true, err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err == nil && !strings.Contains(string(body), `"allowed":true`) {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		return res.Close, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := check(); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	var served, failed atomic.Int64
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for {
				last, err := check()
				if err != nil {
					failed.Add(1)
					t.Errorf("after %d requests: %v", served.Load(), err)
					return
				}
				served.Add(1)
				if last {
					return // the server closes the connection
				}
			}
		})
	}
	for served.Load() < 1_000 && failed.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	t.Logf("%d requests served, %d failed", served.Load(), failed.Load())
}
