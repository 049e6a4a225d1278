package httplimit

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/middleware"
)

// Middleware puts a limiter in front of a handler.
type Middleware func(next http.Handler) http.Handler

// New returns a middleware that decides every request with limiter, except those
// that its options skip. It can be used for any number of handlers. The error
// lists all problems of the options.
func New(limiter fluxgate.Limiter, options ...Option) (Middleware, error) {
	g := &gate{Gate: middleware.Gate[*http.Request]{
		Limiter: limiter, ClientIP: new(clientip.Resolver), Headers: middleware.NewHeaders(false),
		Log: logFailure, Abort: http.ErrAbortHandler,
	}}
	if err := middleware.Apply(g, limiter, options); err != nil {
		return nil, fmt.Errorf("creating a middleware: %w", err)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}, nil
}

// gate is a limiter as HTTP sees it.
type gate struct {
	middleware.Gate[*http.Request]
	reject func(http.ResponseWriter, *http.Request, *Rejection)
}

// serve runs next once, or answers the request itself. Panics of the user's
// functions are recovered, those of next are not.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	path := pathAsSent(r.URL)
	if g.Skips(path) {
		if err := g.Skip(r); err != nil {
			g.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
		return
	}
	req := middleware.NewRequest()
	req.Method, req.Path, req.Host, req.Headers, req.IP = r.Method, path, r.Host, r.Header, g.ClientIP.Addr(r)
	d, err := g.Decide(r.Context(), r, req)
	if err != nil {
		g.fail(w, r, err)
		return // the limiter may still hold the request: it is not reused
	}
	g.Headers.Set(w.Header(), &d)
	if !d.Allowed {
		rejected := rejection(&d)
		middleware.Release(req)
		g.refuse(w, r, rejected)
		return
	}
	defer g.Hold(r.Context(), r, &d, req.Cost)() // also if next panics
	if !g.Settling {
		middleware.Release(req)
		next.ServeHTTP(w, r)
		return
	}
	limited := r.WithContext(g.WithAdmission(r.Context(), req.RuleSet, d))
	middleware.Release(req)
	next.ServeHTTP(w, limited)
	// Handlers set these for outer handlers and the server: the pattern of a
	// mux, for logs, and the form whose files the server deletes.
	r.Pattern, r.MultipartForm = limited.Pattern, limited.MultipartForm
}

// pathAsSent returns the path as the client sent it. EscapedPath differs if the
// client did not escape a byte that it should have: it escapes the decoded path
// again, and %2F becomes a slash. A RawPath of another path is stale and ignored.
func pathAsSent(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawPath == "" || u.RawPath == path {
		return path
	}
	if decoded, err := url.PathUnescape(u.RawPath); err == nil && decoded == u.Path {
		return u.RawPath
	}
	return path
}

// fail answers a request without a decision.
func (g *gate) fail(w http.ResponseWriter, r *http.Request, err error) {
	g.Report(r, err)
	g.refuse(w, r, failure(err, r))
}
