package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// storeTimeout is the default of redis.timeout, the deadline of a decision.
const storeTimeout = 100 * time.Millisecond

// Daemon is a fluxgate server process. As a [Path] its callers post to /v1/check.
type Daemon struct {
	*testenv.Program
	Addr, Admin string
	http        *http.Client
}

// StartDaemon starts a server at an address with the settings of the suite and these,
// such as redis.uri=…, and waits until it answers. An empty address means a free one.
// It ends with the test.
func StartDaemon(tb testing.TB, addr string, set ...string) *Daemon {
	tb.Helper()
	if addr == "" {
		addr = testenv.FreeAddr(tb)
	}
	d := &Daemon{Addr: addr, Admin: testenv.FreeAddr(tb), http: newHTTPClient(tb)}
	args := []string{"serve"}
	for _, one := range append([]string{"server.http=" + d.Addr, "server.admin=" + d.Admin, "log.level=warn"}, set...) {
		args = append(args, "--set", one)
	}
	d.Program = testenv.StartProgram(tb, testenv.Fluxgate(tb), args...)
	testenv.Eventually(tb, "the server answers", func() bool {
		if !d.Running() {
			tb.Fatalf("the server ended:\n%s", d.Log())
		}
		_, err := d.get(tb.Context(), "http://"+d.Addr+"/healthz")
		if err == nil { // the other address is opened after it
			_, err = d.get(tb.Context(), "http://"+d.Admin+"/metrics")
		}
		return err == nil
	})
	return d
}

// fileRules returns the settings for rules in a file.
func fileRules(tb testing.TB) []string {
	tb.Helper()
	return []string{"rules.file=" + writeRules(tb), "mongo.enabled=false"}
}

// writeRules writes the rule set of the suite to a file.
func writeRules(tb testing.TB) (file string) {
	tb.Helper()
	file = filepath.Join(tb.TempDir(), "rules.json")
	text, err := json.Marshal(ruleSet(tb))
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

func newHTTPClient(tb testing.TB) *http.Client {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get returns the body of a GET request with status 200.
func (d *Daemon) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	status, body, err := exchange(d.http, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers %d", url, status)
	}
	return body, err
}

func exchange(c *http.Client, req *http.Request) (status int, body []byte, err error) {
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, body, err
}

// ready reports whether the server answers readiness probes.
func (d *Daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := d.get(ctx, "http://"+d.Addr+"/readyz")
	return err
}

// restart starts a killed server and waits until it is ready.
func (d *Daemon) restart(ctx context.Context) error {
	if err := d.Restart(); err != nil {
		return err
	}
	return until(ctx, func() error { return d.ready(ctx) })
}

// verify reports a process that has ended or panicked.
func (d *Daemon) verify(context.Context) error {
	if !d.Running() {
		return errors.New("the server has ended")
	}
	for _, word := range []string{"panic", "fatal error", "goroutine "} {
		if log := d.Log(); strings.Contains(log, word) {
			return fmt.Errorf("the log of the server has %q", word)
		}
	}
	return nil
}

// Send implements [Path].
func (d *Daemon) Send(ctx context.Context, _ int, user string) Answer {
	var said struct {
		Allowed, Degraded bool
		Receipt           string
	}
	err := d.post(ctx, "/v1/check", `{"apiKey":"`+user+`","method":"GET","path":"`+pathOf(user)+`"}`, &said)
	a := Answer{Allowed: said.Allowed, Degraded: said.Degraded, Err: err}
	if a.Allowed && holdsSlot(user) {
		a.work(ctx, user)
		_ = d.post(ctx, "/v1/settle", `{"receipt":"`+said.Receipt+`","actual":1}`, &struct{}{}) // fails without Redis
	}
	return a
}

// post posts JSON and decodes the answer.
func (d *Daemon) post(ctx context.Context, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Addr+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	status, text, err := exchange(d.http, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", status, text)
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(into)
	}
	return err
}

// Healthy implements [Path].
func (d *Daemon) Healthy(ctx context.Context) bool {
	body, err := d.get(ctx, "http://"+d.Addr+"/v1/health")
	var health struct{ Status string }
	return err == nil && json.Unmarshal(body, &health) == nil && health.Status == "up"
}

// Deadline implements [Path].
func (d *Daemon) Deadline() time.Duration { return storeTimeout }

// proxied is a backend behind a proxy that asks a server.
type proxied struct {
	*Daemon
	url      string
	deadline time.Duration
}

// startProxied starts a proxy with its snippet, which fails closed, a backend and a
// server.
func startProxied(tb testing.TB, p *frontproxy.Proxy, set ...string) *proxied {
	tb.Helper()
	at := frontproxy.FreeAddresses(tb)
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	_ = backend.Listener.Close()
	var err error
	if backend.Listener, err = listen(at.Backend); err != nil {
		tb.Fatal(err)
	}
	backend.Start()
	tb.Cleanup(backend.Close)
	d := StartDaemon(tb, at.Fluxgate, set...)
	p.Start(tb, at, false, "")
	return &proxied{Daemon: d, url: "http://" + at.Proxy, deadline: storeTimeout}
}

// Send implements [Path]. A proxy cannot settle: slots come back after their hold.
func (p *proxied) Send(ctx context.Context, _ int, user string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+pathOf(user), http.NoBody)
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set(apiKeyHeader, user)
	switch status, _, err := exchange(p.http, req); {
	case err != nil:
		return Answer{Err: err}
	case status != http.StatusOK && status != http.StatusTooManyRequests:
		return Answer{Err: fmt.Errorf("status %d", status)}
	default:
		return Answer{Allowed: status == http.StatusOK}
	}
}

// degraded returns the degraded decisions since the server started, which a proxy does
// not show.
func (p *proxied) degraded(ctx context.Context) (int, error) {
	body, err := p.get(ctx, "http://"+p.Addr+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, "fluxgate_degraded_decisions_total "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int(n), err
		}
	}
	return 0, errors.New("no metric of degraded decisions")
}

// Deadline implements [Path].
func (p *proxied) Deadline() time.Duration { return p.deadline }

// remote is an application with package client.
type remote struct {
	*Daemon
	client *client.Client
}

// startRemote returns a client of a server, with a fallback in memory.
func startRemote(tb testing.TB, d *Daemon) *remote {
	tb.Helper()
	local, err := memstore.New(memstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	fallback, err := fluxgate.New(local, fluxgate.Static(ruleSet(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	c, err := client.New("http://"+d.Addr, client.Config{Fallback: fallback})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return &remote{Daemon: d, client: c}
}

// Send implements [Path].
func (r *remote) Send(ctx context.Context, _ int, user string) Answer {
	d, err := r.client.Check(ctx, &fluxgate.Request{APIKey: user, Method: http.MethodGet, Path: pathOf(user)})
	a := Answer{Allowed: d.Allowed, Degraded: d.Degraded, Err: err}
	if a.Allowed && holdsSlot(user) {
		a.work(ctx, user)
		_, _ = r.client.Settle(ctx, d.Receipt(), 1) // fails without Redis
	}
	return a
}

// Deadline implements [Path]: the default timeout of a client.
func (r *remote) Deadline() time.Duration { return 200 * time.Millisecond }
