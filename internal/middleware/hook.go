package middleware

import (
	"fmt"
	"runtime/debug"

	"github.com/fluxgate/fluxgate"
)

// PanicError is a panic in a function that was passed to the middleware. It wraps
// [fluxgate.ErrHook].
type PanicError struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack trace.
	Stack []byte
}

// Error returns the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: panic: %v", fluxgate.ErrHook, e.Value) }

// Unwrap returns [fluxgate.ErrHook].
func (e *PanicError) Unwrap() error { return fluxgate.ErrHook }

// recoverHook turns a panic into an error, except one with the value Abort.
func (g *Gate[R]) recoverHook(err *error) {
	switch p := recover(); p {
	case nil:
	case g.Abort:
		panic(p)
	default:
		*err = &PanicError{Value: p, Stack: debug.Stack()}
	}
}

// Guard calls a user's function.
func (g *Gate[R]) Guard(f func()) (err error) {
	defer g.recoverHook(&err)
	f()
	return nil
}
