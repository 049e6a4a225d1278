package load

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	wrkConnections = 64
	wrkThreads     = 2
	wrkUsers       = 50_000 // of each thread
)

//go:embed wrk.lua
var wrkScript string

// Posting returns a load of POST requests to a URL, by wrk. USER in the body is the name of a
// user. A request that failed or was refused fails the test: it is cheaper than others.
func (s *Service) Posting(tb testing.TB, url, body string, limits int) Run {
	tb.Helper()
	script := filepath.Join(tb.TempDir(), "wrk.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o600); err != nil {
		tb.Fatal(err)
	}
	return func(length time.Duration) Load {
		length = max(time.Second, length.Round(time.Second))
		l := s.measure(tb, limits, func() Load { return s.post(tb, script, url, body, length) })
		tb.Logf("%s, %d limits: %v", s.Name, limits, l)
		return l
	}
}

func (s *Service) post(tb testing.TB, script, url, body string, length time.Duration) Load {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), length+time.Minute)
	defer cancel()
	//nolint:gosec // the figures name the server
	command := exec.CommandContext(ctx, "wrk", "--connections", strconv.Itoa(wrkConnections), "--threads", strconv.Itoa(wrkThreads),
		"--duration", length.String(), "--timeout", "30s", "--script", script, url, "--", body, strconv.Itoa(wrkUsers))
	out, err := command.CombinedOutput()
	if err != nil {
		tb.Fatalf("wrk, of the Debian package wrk: %v: %s", err, out)
	}
	var requests, took, p50, p99, failed, refused int
	_, line, _ := strings.Cut(string(out), "\nload ")
	if _, err := fmt.Sscan(line, &requests, &took, &p50, &p99, &failed, &refused); err != nil {
		tb.Fatalf("wrk printed %s", out)
	}
	if failed > 0 || refused > 0 {
		tb.Fatalf("%s: of %d requests %d failed and %d were refused", s.Name, requests, failed, refused)
	}
	return Load{
		Requests: requests, PerSecond: float64(requests) / (time.Duration(took) * time.Microsecond).Seconds(),
		P50: time.Duration(p50) * time.Microsecond, P99: time.Duration(p99) * time.Microsecond,
	}
}
