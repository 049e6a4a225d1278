package client_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
)

// middlewareOptions are those of the app of a case.
type middlewareOptions struct {
	HTTP           int
	TrustedProxies []string
	Headers        []string // that are sent to the server
}

// buildHarness returns the path of the harness.
func buildHarness(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "harness")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, folder+"harness").CombinedOutput(); err != nil {
		t.Fatalf("building the harness: %v\n%s", err, out)
	}
	return program
}

// startApp starts a handler behind the middleware.
func (run *caseRun) startApp() {
	run.Helper()
	resolver, err := clientip.New(clientip.Config{TrustedProxies: run.of.Middleware.TrustedProxies})
	if err != nil {
		run.Fatal(err)
	}
	limit, err := httplimit.New(run.clients[run.tokens["gateway"]], httplimit.WithClientIP(resolver),
		httplimit.WithUserFunc(httplimit.Header("X-User")), httplimit.WithAPIKeyFunc(httplimit.Header("X-Api-Key")),
		httplimit.WithCostFunc(func(r *http.Request) int64 { return number(r, "X-Cost", 1) }))
	if err != nil {
		run.Fatal(err)
	}
	app := httptest.NewUnstartedServer(limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(number(r, "X-Hold-Ms", 0)) * time.Millisecond)
		_, _ = w.Write([]byte("hello"))
	})))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetHTTP1(run.of.Middleware.HTTP != 2)
	app.Config.Protocols.SetUnencryptedHTTP2(run.of.Middleware.HTTP == 2)
	app.Start()
	run.Cleanup(app.Close)
	run.app = app.URL
}

// number is a header of a request.
func number(r *http.Request, name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(r.Header.Get(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// sendToApp lets the harness send a request to the app, and returns what it has received.
func (run *caseRun) sendToApp(message map[string]any) ([]byte, error) {
	message = maps.Clone(message)
	message["to"], message["http"] = run.app, run.of.Middleware.HTTP
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return run.exchange(http.MethodPost, run.harness+"/send", "", string(body))
}

// waitFor waits until the harness has seen what a step wants.
func (run *caseRun) waitFor(place string, want any) {
	run.Helper()
	problem := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, err := run.exchange(http.MethodGet, run.server+"/seen", "", "")
		var got any
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil {
			problem = err.Error()
			continue
		}
		if problem = mismatch(got, want); problem == "" {
			return
		}
		problem = fmt.Sprintf("%s\n%s", problem, text)
	}
	run.Errorf("%s: %s", place, problem)
}
