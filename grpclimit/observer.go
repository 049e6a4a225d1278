package grpclimit

import (
	"errors"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"github.com/fluxgate/fluxgate/internal/printable"
	"google.golang.org/grpc/grpclog"
)

// Observer gets the result of each call: one for each, before the handler runs.
// Its methods must be fast, and must not keep
// or change their arguments. A fluxgate.Observer gets the events of the engine.
type Observer interface {
	// Decided is called for a call that was allowed or rejected.
	Decided(call *Call, d *fluxgate.Decision)
	// Skipped is called for a call whose method is excluded: it is allowed without a
	// decision.
	Skipped(call *Call)
	// Failed is called if there is no decision because of err. The call is rejected. If
	// the client has disconnected, err is the error of the call's context.
	Failed(call *Call, err error)
}

// PanicError is a panic in a function that was passed to the interceptors: its Value
// and Stack. It wraps [fluxgate.ErrHook].
type PanicError = middleware.PanicError

// maxLogged bounds what is logged of a method: behind
// [google.golang.org/grpc.UnknownServiceHandler] clients choose it.
const maxLogged = 200

var logger = grpclog.Component("grpclimit")

// logFailure writes a failure where gRPC writes its own.
func logFailure(call *Call, err error) {
	logger.Errorf("no decision about %q: %v", printable.Line(call.FullMethod, maxLogged), err)
	var p *PanicError
	if errors.As(err, &p) {
		logger.Errorf("it panicked here:\n%s", p.Stack)
	}
}
