package middleware

import (
	"context"
	"errors"
	"sync"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/match"
)

// Gate is a limiter for a transport. R is the request type of the transport. Options
// set the fields.
type Gate[R any] struct {
	Limiter fluxgate.Limiter

	Include, Exclude *match.Paths // a nil Include is every path
	ClientIP         *clientip.Resolver
	RuleSet          string
	Cost             int64
	RuleSetOf        func(R) string
	CostOf           func(R) int64
	UserOf, APIKeyOf func(R) string
	Attributes       []Attribute[R]
	Amend            func(R, *fluxgate.Request) error

	Headers  Headers
	Settling bool
	Observer Observer[R]

	// Log writes a failure if there is no observer.
	Log func(R, error)
	// Abort is the value of panics that are not recovered, or nil.
	Abort any
}

// Observer gets the result of each request.
type Observer[R any] interface {
	Decided(r R, d *fluxgate.Decision)
	Skipped(r R)
	Failed(r R, err error)
}

// Skips reports whether a path is not limited.
func (g *Gate[R]) Skips(path string) bool {
	return g.Include != nil && !g.Include.MatchAny(path) || g.Exclude.MatchAll(path)
}

// Skip calls the observer for a request whose path is not limited.
func (g *Gate[R]) Skip(r R) error {
	if g.Observer == nil {
		return nil
	}
	return g.Guard(func() { g.Observer.Skipped(r) })
}

// requests are reused: each is needed for one decision.
var requests = sync.Pool{New: func() any { return new(fluxgate.Request) }}

// NewRequest returns an empty request.
func NewRequest() *fluxgate.Request { return requests.Get().(*fluxgate.Request) }

// Release takes back a request after its decision. After an error the limiter may
// still hold it: do not release it.
func Release(req *fluxgate.Request) {
	*req = fluxgate.Request{}
	requests.Put(req)
}

// Decide calls the user's functions to complete the request of the transport, and
// decides it. A panic of a user's function is an error.
func (g *Gate[R]) Decide(ctx context.Context, r R, req *fluxgate.Request) (d fluxgate.Decision, err error) {
	defer g.recoverHook(&err)
	if err := g.describe(r, req); err != nil {
		return d, err
	}
	if d, err = g.Limiter.Check(ctx, req); err != nil {
		return d, err
	}
	if g.Observer != nil {
		seen := d // a copy: only an observer makes a decision escape
		g.decided(ctx, r, &seen)
	}
	return d, nil
}

// decided calls the observer. If it panics, the request is not served: what it has taken is given
// back.
func (g *Gate[R]) decided(ctx context.Context, r R, d *fluxgate.Decision) {
	taken, returned := *d, false
	defer func() {
		if returned || taken.Receipt() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if _, err := g.Limiter.Settle(ctx, taken.Receipt(), 0); err != nil {
			g.Report(r, err)
		}
	}()
	g.Observer.Decided(r, d)
	returned = true
}

// Report passes a failure to the observer, or to the log. A panic of the observer
// is dropped.
func (g *Gate[R]) Report(r R, err error) {
	if g.Observer == nil {
		// Mistakes of clients, and clients that have gone, are not worth a log line each.
		if !errors.Is(err, ErrRepeatedHeader) && !errors.Is(err, context.Canceled) {
			g.Log(r, err)
		}
		return
	}
	_ = g.Guard(func() { g.Observer.Failed(r, err) })
}
