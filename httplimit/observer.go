package httplimit

import (
	"errors"
	"log"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
)

// Observer gets the result of each request of a middleware: one call for each,
// before the handler runs. Its methods must be fast, and must not keep or change
// their arguments. A fluxgate.Observer gets the events of the engine.
type Observer interface {
	// Decided is called for a request that was allowed or rejected.
	Decided(r *http.Request, d *fluxgate.Decision)
	// Skipped is called for a request whose path is excluded: it is allowed without
	// a decision.
	Skipped(r *http.Request)
	// Failed is called if there is no decision because of err. The request is
	// rejected. If the client has disconnected, err is the error of the request's
	// context.
	Failed(r *http.Request, err error)
}

// logFailure writes a failure where net/http writes its own.
func logFailure(r *http.Request, err error) {
	logf := log.Printf
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		logf = server.ErrorLog.Printf
	}
	logf("httplimit: no decision about %s %q: %v", r.Method, r.URL.Path, err)
	var p *PanicError
	if errors.As(err, &p) {
		logf("httplimit: it panicked here:\n%s", p.Stack)
	}
}

// PanicError is a panic in a function that was passed to the middleware: its Value
// and Stack. It wraps [fluxgate.ErrHook].
type PanicError = middleware.PanicError
