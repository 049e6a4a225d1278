package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// size returns how large an abuse is: small in CI, in full size under make soak.
func size(small, full int) int {
	if *soakFor > 0 {
		return full
	}
	return small
}

// connections bounds a number of connections by what a server accepts: half of the
// files that it may open.
func connections(t *testing.T, wanted int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(wanted, int(limit.Cur/2)-100)
	if n < wanted {
		t.Logf("%d connections instead of %d: this process may open %d files", n, wanted, limit.Cur)
	}
	return n
}

// abused starts a server with one rule, in YAML.
func abused(t *testing.T, rule string, set ...string) *Daemon {
	t.Helper()
	testenv.SkipShort(t)
	t.Setenv("GOGC", "50") // as in the soak test
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("id: "+ruleSetID+"\nrules:\n  - "+rule+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := StartDaemon(t, "", append([]string{"rules.file=" + file, "mongo.enabled=false"}, set...)...)
	t.Cleanup(func() {
		if err := d.verify(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

const inMemory = "redis.enabled=false"

// serves checks that other callers, on connections of their own, get answers.
func (d *Daemon) serves(t *testing.T, while string) {
	t.Helper()
	const callers = 50
	var slowest time.Duration
	for i := range callers {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		other := &Daemon{Addr: d.Addr, http: client}
		start := time.Now()
		if a := other.Send(t.Context(), 0, fmt.Sprintf("other-%d", i)); a.Err != nil || !a.Allowed {
			t.Fatalf("%s another caller gets %+v", while, a)
		}
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%s other callers are served, the slowest in %v", while, slowest.Round(time.Millisecond))
}

// returns waits until the server has no more descriptors than before.
func (d *Daemon) returns(t *testing.T, before map[string]float64) {
	t.Helper()
	d.http.CloseIdleConnections()
	const fds = "process_open_fds"
	testenv.Eventually(t, "the server has closed its connections", func() bool { return d.mustMetrics(t)[fds] <= before[fds] })
}

// dial connects with small buffers and segments, so that the buffers of the kernel
// hold little of what is not read.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536))
		})
		return errors.Join(err, failed)
	}}
	conn, err := small.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// Idle connections keep no other caller out, and their memory is bounded.
func TestAbuse_IdleConnections(t *testing.T) {
	d := abused(t, "{id: per-key, limitScope: API_KEY, bands: [{capacity: 100, refill: 1s}]}", inMemory)
	before := d.collected(t)
	conns := make([]*net.TCPConn, connections(t, size(1_000, 10_000)))
	for i := range conns {
		conns[i] = dial(t, d.Addr)
		if _, err := io.WriteString(conns[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v %v", i, res, err)
		}
		_ = res.Body.Close()
	}
	with := d.collected(t)
	heap := (with[liveHeap] - before[liveHeap]) / float64(len(conns))
	stacks := (with["go_memstats_stack_inuse_bytes"] - before["go_memstats_stack_inuse_bytes"]) / float64(len(conns))
	t.Logf("%d connections: %.1f KiB of heap and %.1f KiB of stacks each", len(conns), heap/1024, stacks/1024)
	if got := with["process_open_fds"] - before["process_open_fds"]; got < float64(len(conns)) {
		t.Errorf("the server has %v connections, want %d", got, len(conns))
	}
	if heap+stacks > 32<<10 {
		t.Errorf("%.0f bytes for each idle connection", heap+stacks)
	}
	d.serves(t, "with idle connections")
	for _, conn := range conns {
		_ = conn.Close()
	}
	d.returns(t, before)
}

// Clients that stop in a header, do not read their answers, or send nothing more are
// disconnected, and others are served meanwhile. TestServe_Bodies and
// TestCheck_SlowBodies have those that stop in a body.
func TestAbuse_SlowClients(t *testing.T) {
	d := abused(t, "{id: per-key, limitScope: API_KEY, bands: [{capacity: 100, refill: 1s}]}", inMemory, "server.timeouts.read-header=1s",
		"server.timeouts.read=1s", "server.timeouts.write=1s", "server.timeouts.idle=1s", "wait-for-refill.max-wait-time=500ms")
	before := d.mustMetrics(t)
	clients := connections(t, size(100, 1_000))
	checks := `{"requests":[` + strings.Repeat(`{"apiKey":"slow","path":"/orders"},`, 99) + `{"path":"/orders"}]}`
	batch := fmt.Sprintf("POST /v1/check:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(checks), checks)
	var reading, writing sync.WaitGroup
	var written atomic.Int64
	var ignoring []*net.TCPConn
	for range clients / 4 {
		conn := dial(t, d.Addr)
		ignoring = append(ignoring, conn)
		// It sends requests and reads no answer, until the server takes no more.
		writing.Go(func() {
			for {
				if _, err := io.WriteString(conn, batch); err != nil {
					return
				}
				written.Add(1)
			}
		})
	}
	for kind, text := range map[string]string{
		"stops in a header":    "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"sends nothing":        "",
		"idle after an answer": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		for range clients / 4 {
			conn := dial(t, d.Addr)
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			reading.Go(func() {
				if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: the server did not close the connection", kind)
				}
			})
		}
	}
	d.serves(t, "with slow clients")
	reading.Wait()
	d.returns(t, before) // of those that do not read too: this end has not closed them
	for _, conn := range ignoring {
		_ = conn.Close()
	}
	writing.Wait()
	t.Logf("%d slow clients were disconnected; %d requests of them were sent without reading", clients, written.Load())
}

// Requests that wait are bounded by max-concurrent-waits. The others are refused
// while those wait.
func TestAbuse_WaitingRequests(t *testing.T) {
	offered := connections(t, size(1_000, 10_000))
	slots := offered / 2
	redis := testenv.StartStandalone(t, testenv.Config{})
	d := abused(t, "{id: per-key, limitScope: API_KEY, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 10m}]}",
		"redis.uri="+redis.URI(), "wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=20m", "server.timeouts.write=30m",
		fmt.Sprintf("wait-for-refill.max-concurrent-waits=%d", slots), "redis.timeout=5s")
	before := d.mustMetrics(t)
	var keys []string
	for i := range offered {
		keys = append(keys, fmt.Sprintf("waiter-%d", i))
	}
	d.batches(t, offered, func(i int) string { return keys[i] }) // each uses its token up
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var refused, admitted atomic.Int64
	transport := &http.Transport{}
	waiter := &Daemon{Addr: d.Addr, http: &http.Client{Transport: transport}}
	for _, key := range keys {
		waiting.Go(func() {
			switch a := waiter.Send(ctx, 0, key); {
			case a.Err != nil && ctx.Err() == nil:
				t.Error(a.Err)
			case a.Err == nil && a.Allowed:
				admitted.Add(1)
			case a.Err == nil:
				refused.Add(1)
			}
		})
	}
	testenv.Eventually(t, "the others are refused", func() bool { return refused.Load() >= int64(offered-slots) })
	with := d.mustMetrics(t)
	if n := int(with["fluxgate_waiting"]); n != slots {
		t.Errorf("%d requests wait, want %d", n, slots)
	}
	d.serves(t, fmt.Sprintf("with %d waiting requests", slots))
	leave()
	waiting.Wait()
	transport.CloseIdleConnections()
	if refused.Load() != int64(offered-slots) || admitted.Load() != 0 {
		t.Errorf("%d refused and %d admitted of %d, want %d and 0", refused.Load(), admitted.Load(), offered, offered-slots)
	}
	testenv.Eventually(t, "no request waits", func() bool { return d.mustMetrics(t)["fluxgate_waiting"] == 0 })
	d.returns(t, map[string]float64{"process_open_fds": before["process_open_fds"] + 16}) // connections to Redis
}

// Nothing that a client chooses becomes a label: methods, paths, hosts, headers, rule
// sets, attributes and identities leave the number of series where it was.
func TestAbuse_HeadersAndLabels(t *testing.T) {
	d := abused(t, "{id: per-key, limitScope: API_KEY, bands: [{capacity: 100, refill: 1s}]}", inMemory)
	bomb := func(from, to int) {
		for i := from; i < to; i++ {
			method, target := http.MethodPost, "/v1/check"
			switch i % 4 {
			case 0:
				target = fmt.Sprintf("/v1/path-%d", i)
			case 1: // a route for every method
				method, target = fmt.Sprintf("METHOD%d", i), "/v1/forward-auth"
			}
			text := fmt.Sprintf(`{"ruleSet":"set-%d","apiKey":"key-%d","path":"/p-%d","attributes":{"a-%d":"x"}}`, i%3*i, i, i, i)
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.Addr+target, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			for h := range 200 {
				req.Header.Set(fmt.Sprintf("X-Header-%d-%d", i, h), "x")
			}
			if _, _, err := exchange(d.http, req); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := size(1_000, 100_000)
	bomb(0, n/4)
	first := d.collected(t)
	bomb(n/4, n)
	last := d.collected(t)
	t.Logf("%d requests: %d series; heap %.2f MB, then %.2f MB", n, len(last), first[liveHeap]/(1<<20), last[liveHeap]/(1<<20))
	for series := range last {
		if _, ok := first[series]; !ok && strings.HasPrefix(series, "fluxgate_") {
			t.Errorf("new series %s", series)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.Addr+"/v1/check", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if status, _, err := exchange(d.http, req); err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB gets %d, %v", status, err)
	}
}
