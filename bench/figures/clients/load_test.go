package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/chaos"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

const (
	callers = 32
	seconds = 5 // of each run
)

const loadRules = `
id: api-limits
rules:
  - { id: per-user, limitScope: USER_ID, bands: [{ capacity: 1000000000, refill: 1h }] }
`

// compareRates compares the checks per second of the clients with those of the Go client, at
// one server.
func compareRates(t *testing.T, report *figure.Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(loadRules), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testenv.StartStandalone(t, testenv.Config{})
	server := chaos.StartDaemon(t, "", "redis.uri="+redis.URI(), "redis.timeout=10s", "rules.file="+file, "mongo.enabled=false")
	url := "http://" + server.Addr
	for name, command := range map[string]func(ctx context.Context, url string) (*exec.Cmd, error){
		"clients-java-vs-go": javaLoad, "clients-python-vs-go": pythonLoad,
	} {
		var ratios []float64
		var failed error
		for range 3 {
			ours := goRate(t, url)
			theirs, err := loadRate(t.Context(), command, url)
			if failed = err; err != nil {
				break
			}
			t.Logf("%s: %.0f/s, Go %.0f/s", name, theirs, ours)
			ratios = append(ratios, theirs/ours)
		}
		if failed != nil {
			report.Failed(name, failed)
			continue
		}
		report.Print(name, figure.MedianOf(ratios), "×")
	}
}

// javaLoad is the load program of the Java client.
func javaLoad(ctx context.Context, url string) (*exec.Cmd, error) {
	jar, err := onlyFile(root+"/clients/java/build/*.jar", "make client-java")
	if err != nil {
		return nil, err
	}
	load, err := onlyFile(root+"/clients/java/build/bench", "make client-java")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, "java", "-cp", jar+":"+load, "io.fluxgate.Load", url, "", strconv.Itoa(callers), strconv.Itoa(seconds)), nil
}

// pythonLoad is the load program of the Python client.
func pythonLoad(ctx context.Context, url string) (*exec.Cmd, error) {
	source, err := onlyFile(root+"/clients/python/bench.py", "the load program is missing")
	if err != nil {
		return nil, err
	}
	// The interpreter of the distribution has the modules.
	return exec.CommandContext(ctx, "/usr/bin/python3", source, url, "", strconv.Itoa(seconds)), nil
}

var rate = regexp.MustCompile(`(\d+) checks/s`)

// loadRate runs a load program. It prints a rate for each kind of client, of which the fastest counts.
func loadRate(ctx context.Context, command func(ctx context.Context, url string) (*exec.Cmd, error), url string) (float64, error) {
	cmd, err := command(ctx, url)
	if err != nil {
		return 0, err
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	fastest := 0.0
	for _, found := range rate.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, err
		}
		fastest = max(fastest, n)
	}
	if fastest == 0 {
		return 0, fmt.Errorf("%v prints no rate: %s", cmd.Args, text)
	}
	return fastest, nil
}

// goRate is the checks per second of the Go client.
func goRate(t *testing.T, url string) float64 {
	t.Helper()
	limiter, err := client.New(url, client.Config{Timeout: 10 * time.Second, OnFailure: rules.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	var checked, refused atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for caller := range callers {
		all.Go(func() {
			for time.Since(start) < seconds*time.Second {
				d, err := limiter.Check(t.Context(), &fluxgate.Request{UserID: fmt.Sprintf("user-%d", caller), Method: "GET", Path: "/api/orders"})
				if err != nil || !d.Allowed {
					refused.Add(1)
				}
				checked.Add(1)
			}
		})
	}
	all.Wait()
	if refused.Load() > 0 {
		t.Errorf("%d of %d checks were not allowed", refused.Load(), checked.Load())
	}
	return float64(checked.Load()) / time.Since(start).Seconds()
}
