package upgrade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// rulesFile has a rule for each kind of limit. The quotas and the window are never used up, so
// that all that was taken can be compared with what is left.
const rulesFile = `
id: upgrade
costTables:
  usd:
    "*": { input: 1000000, output: 2000000, maxOutputTokens: 100 }
rules:
  - { id: strict, path: /strict, limitScope: USER_ID, consistency: strict, bands: [{ capacity: 50, refill: 1s }] }
  - { id: leased, path: /leased, limitScope: USER_ID, bands: [{ capacity: 200, refill: 1s }] }
  - { id: quota, path: /quota, limitScope: USER_ID, consistency: strict, bands: [{ kind: quota, capacity: 100000000, period: month }] }
  - { id: window, path: /window, limitScope: USER_ID, bands: [{ kind: sliding-window, capacity: 100000000, period: 1h }] }
  - { id: slots, path: /slots, limitScope: USER_ID, bands: [{ kind: concurrency, capacity: 4, hold: 1m }] }
  - { id: budget, path: /budget, cost: usd, limitScope: USER_ID, bands: [{ kind: quota, capacity: 100000000, period: month }] }
`

// fleet is the servers that callers use.
type fleet struct {
	t        *testing.T
	settings []string
	client   *http.Client

	mu    sync.RWMutex // held for reading while a server is used
	inUse []*server
}

type server struct {
	*testenv.Program
	version, addr, admin string
}

func newFleet(t *testing.T, redis string) *fleet {
	t.Helper()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "secret")
	for name, text := range map[string]string{file: rulesFile, secret: "the servers have it in common"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &fleet{t: t, client: &http.Client{Transport: transport}, settings: []string{
		"redis.uri=" + redis, "redis.timeout=5s", "rules.file=" + file, "ratelimit.default-rule-set-id=upgrade",
		"settle.receipt-secret-file=" + secret, "mongo.enabled=false", "server.drain.delay=300ms", "log.level=error",
	}}
}

// start starts a server with more settings and waits until it is ready.
func (f *fleet) start(version, program string, more ...string) *server {
	f.t.Helper()
	s := &server{version: version, addr: testenv.FreeAddr(f.t), admin: testenv.FreeAddr(f.t)}
	args := []string{"serve", "--set", "server.http=" + s.addr, "--set", "server.admin=" + s.admin}
	for _, setting := range slices.Concat(f.settings, more) {
		args = append(args, "--set", setting)
	}
	s.Program = testenv.StartProgram(f.t, program, args...)
	testenv.Eventually(f.t, "the server is ready", func() bool {
		res, err := f.client.Get("http://" + s.addr + "/readyz")
		if err != nil {
			return !s.Running()
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode == http.StatusOK
	})
	if !s.Running() {
		f.t.Fatalf("the %s server has ended", version)
	}
	return s
}

func (f *fleet) use(servers ...*server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inUse = servers
}

// replace puts a server in the place of another, which it stops as an orchestrator does.
func (f *fleet) replace(i int, by *server) {
	f.t.Helper()
	f.mu.Lock()
	gone := f.inUse[i]
	f.inUse = slices.Clone(f.inUse)
	f.inUse[i] = by
	f.mu.Unlock()
	if err := gone.Stop(f.t.Context()); err != nil {
		f.t.Errorf("stopping the %s server: %v", gone.version, err)
	}
}

// servers are those to send the next requests to.
func (f *fleet) servers() []*server {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.inUse
}

// post sends JSON to a server and decodes the answer. A server that was replaced meanwhile still
// answers: it stops accepting after a while.
func (f *fleet) post(ctx context.Context, s *server, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	return f.exchange(req, s, into)
}

// get reads JSON from the admin listener of a server.
func (f *fleet) get(s *server, path string, into any) error {
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+s.admin+path, http.NoBody)
	if err != nil {
		return err
	}
	return f.exchange(req, s, into)
}

func (f *fleet) exchange(req *http.Request, s *server, into any) error {
	res, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of the %s version answers %s: %.200s", req.URL.Path, s.version, res.Status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	return err
}
