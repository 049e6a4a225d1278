package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/match"
)

// Middleware puts a limiter in front of a handler.
type Middleware func(next http.Handler) http.Handler

// New returns a middleware that decides every request with limiter, except those
// that its options skip. It can be used for any number of handlers. The error
// lists all problems of the options.
func New(limiter fluxgate.Limiter, options ...Option) (Middleware, error) {
	g := &gate{
		limiter: limiter, names: newNameCache(), ips: new(clientip.Resolver),
		ietfHeaders: true, xHeaders: true,
	}
	var problems []error
	if limiter == nil {
		problems = append(problems, errors.New("no limiter"))
	}
	for _, option := range options {
		if err := option(g); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("creating a middleware: %w", errors.Join(problems...))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}, nil
}

// gate is a limiter as HTTP sees it.
type gate struct {
	limiter fluxgate.Limiter
	names   *nameCache

	include, exclude *match.Paths // a nil include is every path
	ips              *clientip.Resolver
	ruleSet          string
	cost             int64
	ruleSetOf        func(*http.Request) string
	costOf           func(*http.Request) int64
	userOf, apiKeyOf func(*http.Request) string
	attributes       []attribute
	amend            func(*http.Request, *fluxgate.Request) error

	ietfHeaders, xHeaders bool
	settling              bool
	reject                func(http.ResponseWriter, *http.Request, *Rejection)
	observer              Observer
}

// serve runs next once, or answers the request itself. Panics of the user's
// functions are recovered, those of next are not.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	path := pathAsSent(r.URL)
	if g.include != nil && !g.include.MatchAny(path) || g.exclude.MatchAll(path) {
		g.skip(w, r, next)
		return
	}
	req := requests.Get().(*fluxgate.Request)
	d, err := g.decide(r, path, req)
	if err != nil {
		g.fail(w, r, err)
		return // the limiter may still hold the request: it is not reused
	}
	g.setHeaders(w.Header(), &d)
	if !d.Allowed {
		rejected := rejection(&d)
		release(req)
		g.refuse(w, r, rejected)
		return
	}
	if hold, ok := d.Hold(); ok {
		defer g.hold(r, &d, max(1, req.Cost), hold)() // also if next panics
	}
	if !g.settling {
		release(req)
		next.ServeHTTP(w, r)
		return
	}
	limited := r.WithContext(newPassage(r.Context(), g.limiter, req.RuleSet, d))
	release(req)
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

// skip runs next for a request whose path is excluded.
func (g *gate) skip(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.observer != nil {
		if err := guard(func() { g.observer.Skipped(r) }); err != nil {
			g.fail(w, r, err)
			return
		}
	}
	next.ServeHTTP(w, r)
}

// requests are reused: each is needed for one decision.
var requests = sync.Pool{New: func() any { return new(fluxgate.Request) }}

func release(req *fluxgate.Request) {
	*req = fluxgate.Request{}
	requests.Put(req)
}

// decide decides a request. A panic of a user's function is an error.
func (g *gate) decide(r *http.Request, path string, req *fluxgate.Request) (d fluxgate.Decision, err error) {
	defer recoverHook(&err)
	if err := g.describe(r, path, req); err != nil {
		return d, err
	}
	if d, err = g.limiter.Check(r.Context(), req); err != nil {
		return d, err
	}
	if g.observer != nil {
		seen := d // a copy: only an observer makes a decision escape
		g.observer.Decided(r, &seen)
	}
	return d, nil
}

// fail answers a request without a decision.
func (g *gate) fail(w http.ResponseWriter, r *http.Request, err error) {
	g.report(r, err)
	g.refuse(w, r, failure(err, r))
}

// report passes a failure to the observer, or to the log. A panic of the observer
// is dropped.
func (g *gate) report(r *http.Request, err error) {
	if g.observer == nil {
		if !errors.Is(err, ErrRepeatedHeader) { // a client's mistake is not worth a log line each
			logFailure(r, err)
		}
		return
	}
	_ = guard(func() { g.observer.Failed(r, err) })
}
