package httplimit

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/fluxgate/fluxgate"
)

// Observer is told what became of each request that reached a middleware: one
// call for each, before the handler runs. Its methods must be quick, and what
// they are given is theirs to read until they return. What the engine does is
// for a fluxgate.Observer to hear.
type Observer interface {
	// Decided is called when there is a decision, to pass or not.
	Decided(r *http.Request, d *fluxgate.Decision)
	// Skipped is called for a request that is left out by its path: it passes
	// and nobody was asked.
	Skipped(r *http.Request)
	// Failed is called when there is no decision because of err. The request
	// does not pass. If the client has gone err is the error of the request's
	// context.
	Failed(r *http.Request, err error)
}

// logFailure writes a failure where net/http writes its own.
func logFailure(r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // clients go all the time
	}
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
