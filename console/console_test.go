package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/console"
)

func get(t *testing.T, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	handler.ServeHTTP(w, r)
	return w
}

func text(t *testing.T, from io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// The page and its assets are served with their types.
func TestNew_Assets(t *testing.T) {
	for path, want := range map[string]struct{ kind, part string }{
		"/console/":             {"text/html; charset=utf-8", `<script type="module"`},
		"/console/index.html":   {"text/html; charset=utf-8", `<div id="root">`},
		"/console/app.js":       {"text/javascript; charset=utf-8", "/v1/whoami"},
		"/console/app.css":      {"text/css; charset=utf-8", "--mantine-"},
		"/console/logo.svg":     {"image/svg+xml", "<path"},
		"/console/licences.txt": {"text/plain; charset=utf-8", "react-dom"},
	} {
		res := get(t, path)
		if res.Code != http.StatusOK || res.Header().Get("Content-Type") != want.kind || !strings.Contains(text(t, res.Body), want.part) {
			t.Errorf("%s: %d %v", path, res.Code, res.Header())
		}
	}
	for _, path := range []string{"/console/none", "/console/../console.go", "/console/dist/app.js"} {
		if res := get(t, path); res.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.Code)
		}
	}
}

// A browser with the current version gets no body, in either encoding.
func TestNew_ETag(t *testing.T) {
	plain, zipped := get(t, "/console/app.js"), get(t, "/console/app.js", "Accept-Encoding", "br, gzip")
	unzipped, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	if zipped.Header().Get("Content-Encoding") != "gzip" || text(t, unzipped) != text(t, plain.Body) {
		t.Error("gzip has another text")
	}
	one, other := plain.Header().Get("ETag"), zipped.Header().Get("ETag")
	if one == other {
		t.Errorf("both encodings have the ETag %s", one)
	}
	if res := get(t, "/console/app.js", "If-None-Match", one); res.Code != http.StatusNotModified {
		t.Errorf("plain: %d", res.Code)
	}
	if res := get(t, "/console/app.js", "If-None-Match", other, "Accept-Encoding", "gzip"); res.Code != http.StatusNotModified {
		t.Errorf("gzip: %d", res.Code)
	}
	if res := get(t, "/console/app.js", "If-None-Match", `"former"`); res.Code != http.StatusOK {
		t.Errorf("a former version: %d", res.Code)
	}
}

// All assets together are at most 400 kB on the network.
func TestNew_Size(t *testing.T) {
	files, err := os.ReadDir("dist")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		size := len(get(t, "/console/"+file.Name(), "Accept-Encoding", "gzip").Body.Bytes())
		t.Logf("%s: %d bytes", file.Name(), size)
		total += size
	}
	if total == 0 || total > 400_000 {
		t.Errorf("the console has %d bytes", total)
	}
}

// The page runs no script but its own, and no other page frames it.
func TestNew_SecurityHeaders(t *testing.T) {
	h := get(t, "/console/").Header()
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy has no %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
}
