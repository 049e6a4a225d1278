// Package console holds the web console and serves it.
//
// The assets in dist are built from the TypeScript in this folder (make console) and
// committed, so that the Go tool alone builds a server with a console. CI builds them
// again and fails on a difference.
//
// The assets hold no data and need no authentication. The console uses the admin API
// with the caller's own token or certificate, and sends requests to its own origin
// only.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Path is where the handler is mounted.
const Path = "/console/"

//go:embed dist
var dist embed.FS

// policy permits scripts and styles of the console itself only. No style is inline:
// scripts set the style properties of elements, which needs no permission.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

// asset is a file as it is served.
type asset struct {
	kind, tag string
	plain     []byte
	zip       func() []byte // compressed at the first request: servers start without it
}

// New returns the handler of [Path].
func New() (http.Handler, error) {
	assets := map[string]*asset{}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		assets[strings.TrimPrefix(name, "dist/")] = newAsset(name, text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the console: %w", err)
	}
	assets[""] = assets["index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := assets[strings.TrimPrefix(r.URL.Path, Path)]
		if found == nil {
			http.NotFound(w, r)
			return
		}
		found.serve(w, r)
	}), nil
}

func newAsset(name string, text []byte) *asset {
	kind := mime.TypeByExtension(path.Ext(name))
	if strings.HasSuffix(name, ".js") { // the table of the machine may say otherwise
		kind = "text/javascript; charset=utf-8"
	}
	sum := sha256.Sum256(text)
	return &asset{kind: kind, plain: text, tag: hex.EncodeToString(sum[:16]), zip: sync.OnceValue(func() []byte { return compress(text) })}
}

func compress(text []byte) []byte {
	var zip bytes.Buffer
	to, _ := gzip.NewWriterLevel(&zip, gzip.BestCompression) // the level exists
	_, _ = to.Write(text)                                    // to memory: never fails
	_ = to.Close()
	return zip.Bytes()
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // ask each time, by the ETag
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", a.kind)
	body, tag := a.plain, a.tag
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body, tag = a.zip(), a.tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsGzip reports whether the client accepts gzip. Browsers name it without a
// weight; all others get the plain text.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return true
		}
	}
	return false
}
