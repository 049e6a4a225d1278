// Package examples_test runs every example as a user does, and uses it.
package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// run builds an example, starts it and returns where it listens.
func run(t *testing.T, name string, args ...string) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Log(lines.Text())
			if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
				found <- at
				break
			}
		}
		_, _ = io.Copy(io.Discard, said)
	}()
	select {
	case url = <-found:
	case <-time.After(time.Minute):
		t.Fatal("it does not listen")
	}
	return url
}

// get asks for a page and returns the status, the body and the headers.
func get(t *testing.T, url string, headers ...string) (int, string, http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body), res.Header
}

// Five requests are allowed and the sixth is rejected.
func TestExamples_Limit(t *testing.T) {
	for name, want := range map[string]struct{ path, body string }{
		"quickstart": {"/", "hello\n"},
		"chi":        {"/orders/17", "order 17\n"},
		"gin":        {"/orders/17", "order 17\n"},
		"echo":       {"/orders/17", "order 17\n"},
	} {
		t.Run(name, func(t *testing.T) {
			url := run(t, name) + want.path
			for i := range 5 {
				status, body, header := get(t, url)
				if status != http.StatusOK || body != want.body {
					t.Fatalf("request %d: %d %q", i, status, body)
				}
				if header.Get("X-RateLimit-Limit") != "5" || header.Get("RateLimit") == "" {
					t.Errorf("headers %v", header)
				}
			}
			for range 20 { // one comes back every second
				status, body, header := get(t, url)
				if status != http.StatusTooManyRequests {
					continue
				}
				if header.Get("Retry-After") != "1" || !strings.Contains(body, "per-ip") {
					t.Errorf("%v %s", header, body)
				}
				return
			}
			t.Error("nobody is refused")
		})
	}
}

// Requests over the limit are held until tokens are available.
func TestExamples_Waiting(t *testing.T) {
	url := run(t, "waiting") + "/report"
	start := time.Now()
	const callers = 40
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range callers {
		all.Go(func() {
			status, _, _ := get(t, url)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	took := time.Since(start)
	t.Logf("%v in %v", statuses, took)
	// One at once and one every 100 ms, for at most two seconds of waiting.
	served := statuses[http.StatusOK]
	if served < 21 || served+statuses[http.StatusTooManyRequests] != callers || statuses[http.StatusTooManyRequests] == 0 {
		t.Errorf("%v", statuses)
	}
	if least := time.Duration(served-1) * 100 * time.Millisecond; took < least-50*time.Millisecond {
		t.Errorf("%d were served in %v: it cannot be before %v", served, took, least)
	}
}

// The gateway limits by plan and reloads changed rules.
func TestExamples_Gateway(t *testing.T) {
	redis, mongo := testenv.StartStandalone(t, testenv.Config{}), testenv.StartMongo(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "backend ", r.URL.Path) }))
	t.Cleanup(backend.Close)
	source, err := mongorules.Open(t.Context(), mongo.URI(), mongorules.Config{Database: "fluxgate"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	plans := func(standard int64) *rules.Set {
		tenant := rules.Rule{
			ID: "standard", Group: "plan", Scope: rules.ScopeCustom, KeyFields: []string{"attr:tenant"},
			Bands: []rules.Band{{Label: "hourly", Capacity: standard, Refill: time.Hour}},
		}
		premium := tenant
		premium.ID, premium.Priority = "premium", 10
		premium.When.Attributes = map[string][]string{"tenant": {"acme"}}
		premium.Bands = []rules.Band{{Label: "hourly", Capacity: 100, Refill: time.Hour}}
		return fluxgate.Must(rules.NewSet("api-limits", tenant, premium))
	}
	revision, err := source.Put(t.Context(), plans(2), rules.Change{Author: "test"})
	if err != nil {
		t.Fatal(err)
	}

	url := run(t, "gateway", "-redis", redis.URI(), "-mongo", mongo.URI(), "-backend", backend.URL, "-copies", t.TempDir()) + "/orders"
	tries := 0
	testenv.Eventually(t, "a tenant may send two requests", func() bool { // once Redis answers in time
		tenant, answers := fmt.Sprint("globex-", tries), []int(nil)
		tries++
		for range 3 {
			status, body, _ := get(t, url, "X-Tenant", tenant)
			if status == 200 && body != "backend /orders" {
				t.Fatalf("the answer is %s", body)
			}
			answers = append(answers, status)
		}
		return slices.Equal(answers, []int{200, 200, 429})
	})
	if status, _, header := get(t, url, "X-Tenant", "acme"); status != 200 || header.Get("X-RateLimit-Limit") != "100" {
		t.Errorf("acme: %d %v", status, header)
	}
	if _, err := source.Put(t.Context(), plans(50), rules.Change{Author: "test", Base: revision}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for i := 0; ; i++ {
		// A tenant of its own for each look: one that asked before the change has spent its tokens.
		status, _, header := get(t, url, "X-Tenant", fmt.Sprint("tenant-", i))
		if status == 200 && header.Get("X-RateLimit-Limit") == "50" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the change is not in effect: %d %v", status, header)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
