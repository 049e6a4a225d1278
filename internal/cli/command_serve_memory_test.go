package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// process is a server in a process of its own.
type process struct {
	admin, http string
	pid         int
}

// serveProcess runs the program with two tenants, each kept to its own rule set,
// whose tokens are their names.
func serveProcess(t *testing.T, binary string, settings ...string) *process {
	t.Helper()
	folder := t.TempDir()
	p := &process{admin: testenv.FreeAddr(t), http: testenv.FreeAddr(t)}
	var file strings.Builder
	fmt.Fprintf(&file, "fluxgate:\n  server:\n    http: %s\n    admin: %s\n    auth:\n      tokens:\n", p.http, p.admin)
	for _, name := range []string{"tenant-a", "tenant-b"} {
		sum := sha256.Sum256([]byte(name))
		fmt.Fprintf(&file, "        - { name: %s, sha256: %s, roles: [check, read], rule-sets: [%s] }\n", name, hex.EncodeToString(sum[:]), name)
	}
	fmt.Fprintf(&file, "  redis: { enabled: false }\n  mongo: { enabled: false }\n  rules: { file: %q }\n", folder+"/rules.yaml")
	for name, text := range map[string]string{
		"fluxgate.yaml": file.String(),
		"rules.yaml":    "id: tenant-b\nrules:\n  - {id: everyone, limitScope: USER_ID, bands: [{capacity: 1000000, refill: 1h}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"serve", "--config", filepath.Join(folder, "fluxgate.yaml")}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.Command(binary, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server's log:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", p.admin); err == nil {
			_ = conn.Close()
			return p
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// peak is the most memory that the process has had, in MB.
func (p *process) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}

// post is the status of a request with a body.
func post(ctx context.Context, url, token string, body io.Reader) (int, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	// A refusal must not depend on the body. If the client sent it meanwhile, the server could close
	// the connection first, and the client would report that instead of the answer.
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}, Timeout: 2 * time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header, err
}

// largeRuleSet is a rule set as JSON that is as large as one may be.
func largeRuleSet() []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":"tenant-a","rules":[`)
	text := strings.Repeat("a", 1_150)
	for i := range 10_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"r%d","bands":[{"capacity":9,"refill":"1s"}],"attributes":{"x":%q}}`, i, text)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// stalled opens a request that sends all but the last byte of a body. The group
// waits until that was sent, or refused.
func stalled(t *testing.T, group *sync.WaitGroup, addr, path, token string, length int) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	group.Go(func() {
		w := bufio.NewWriter(conn)
		fmt.Fprintf(w, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, token, length)
		for part := []byte(strings.Repeat(" ", 64<<10)); length > 1; length -= len(part) {
			_, _ = w.Write(part[:min(len(part), length-1)])
		}
		_ = w.Flush() // the server may have refused it already
	})
}

// maxPeak is what a server may use while one tenant attacks it, in MB. Before
// bodies were bounded the attacks below took thousands.
const maxPeak = 700

// One tenant can neither fill the memory with bodies nor block another tenant.
func TestServe_Bodies(t *testing.T) {
	testenv.SkipShort(t)
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the memory of a process is read from /proc")
	}
	binary := testenv.Fluxgate(t)
	t.Run("large", func(t *testing.T) { largeBodies(t, serveProcess(t, binary)) })
	t.Run("stalled", func(t *testing.T) { stalledBodies(t, serveProcess(t, binary, "server.timeouts.read=1m")) })
}

// largeBodies has a tenant that sends 40 large rule sets at once.
func largeBodies(t *testing.T, p *process) {
	t.Helper()
	body := largeRuleSet()
	if len(body) < 11<<20 || len(body) > rules.MaxDocument {
		t.Fatalf("the rule set has %d bytes", len(body))
	}
	var mu sync.Mutex
	answers := map[int]int{}
	var attack sync.WaitGroup
	for range 40 {
		attack.Go(func() {
			status, header, err := post(t.Context(), "http://"+p.admin+"/v1/validate", "tenant-a", bytes.NewReader(body))
			mu.Lock()
			defer mu.Unlock()
			switch answers[status]++; {
			case err != nil:
				// A server that refuses a request need not read all of it.
				var gone *net.OpError
				if !errors.As(err, &gone) {
					t.Errorf("a large rule set: %v", err)
				}
			case status == http.StatusServiceUnavailable && header.Get("Retry-After") == "":
				t.Error("503 without Retry-After")
			case status != http.StatusOK && status != http.StatusServiceUnavailable:
				t.Errorf("a large rule set is answered %d", status)
			}
		})
	}
	for range 10 {
		if status, _, err := post(t.Context(), "http://"+p.admin+"/v1/validate", "tenant-b", strings.NewReader(`{"id":"tenant-b","rules":[]}`)); err != nil || status != http.StatusOK {
			t.Errorf("meanwhile another tenant is answered %d (%v)", status, err)
		}
	}
	attack.Wait()
	peak := p.peak(t)
	t.Logf("answers %v, at most %d MB", answers, peak)
	if peak > maxPeak {
		t.Errorf("the server took %d MB", peak)
	}
	if answers[http.StatusOK] == 0 {
		t.Error("no large rule set was read")
	}
}

// stalledBodies has a tenant that opens requests and never ends them, while
// another one sends large ones.
func stalledBodies(t *testing.T, p *process) {
	t.Helper()
	validate, batch := "http://"+p.admin+"/v1/validate", "http://"+p.http+"/v1/check:batch"
	large := `{"requests":[` + strings.Repeat(`{"ruleSet":"tenant-b","userId":"ann","path":"/`+strings.Repeat("a", 1_000)+`"},`, 99) + `{"ruleSet":"tenant-b"}]}`
	var sending sync.WaitGroup
	for range 60 {
		stalled(t, &sending, p.admin, "/v1/validate", "tenant-a", 12<<20)
	}
	for range 1_000 {
		stalled(t, &sending, p.http, "/v1/check:batch", "tenant-a", 1<<20-1)
	}
	for url, body := range map[string]string{validate: `{"id":"tenant-a","rules":[]}`, batch: strings.ReplaceAll(large, "tenant-b", "tenant-a")} {
		if status, header, err := post(t.Context(), url, "tenant-a", strings.NewReader(body)); err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s answers the tenant itself %d %v (%v), want 503 and when to try again", url, status, header, err)
		}
	}
	for _, c := range []struct{ url, body string }{
		{validate, string(largeRuleSet())},
		{batch, large},
		{"http://" + p.http + "/v1/check", `{"ruleSet":"tenant-b","userId":"ann"}`},
		{"http://" + p.http + "/api/ratelimit/check", `{"ruleSetId":"tenant-b","userId":"ann"}`},
	} {
		for range 3 {
			if status, _, err := post(t.Context(), c.url, "tenant-b", strings.NewReader(c.body)); err != nil || status != http.StatusOK {
				t.Errorf("%s answers another tenant %d (%v)", c.url, status, err)
			}
		}
	}
	sending.Wait()
	peak := p.peak(t)
	t.Logf("at most %d MB", peak)
	if peak > maxPeak {
		t.Errorf("the server took %d MB", peak)
	}
}
