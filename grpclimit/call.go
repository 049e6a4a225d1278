package grpclimit

import (
	"context"
	"strings"

	"github.com/fluxgate/fluxgate/internal/middleware"
	"google.golang.org/grpc/metadata"
)

// Call is a call as the functions of options see it. They must not keep or change it.
type Call struct {
	// FullMethod is "/package.Service/Method".
	FullMethod string
	// Metadata is the incoming metadata, with names in lower case.
	Metadata metadata.MD
	// Message is the request of a unary call, and nil for a stream.
	Message any

	ctx context.Context
}

// Context returns the context of the call, for [google.golang.org/grpc/peer] and the
// values of outer interceptors.
func (c *Call) Context() context.Context { return c.ctx }

func newCall(ctx context.Context, method string, message any) *Call {
	md, _ := metadata.FromIncomingContext(ctx)
	return &Call{FullMethod: method, Metadata: md, Message: message, ctx: ctx}
}

// ErrRepeatedHeader is the error of a call with several values of metadata that
// [Metadata] or [BearerToken] reads: the handler may use another one than the
// limiter.
var ErrRepeatedHeader = middleware.ErrRepeatedHeader

// Metadata is a function that reads a value of the metadata, for [WithAPIKeyFunc],
// [WithUserFunc] and [WithAttribute]. Clients can set it unless a proxy overwrites
// it. A call with several values is rejected with INVALID_ARGUMENT.
func Metadata(name string) func(*Call) string {
	name = strings.ToLower(name)
	return func(c *Call) string { return middleware.OneLine(c.Metadata[name]) }
}

// BearerToken reads the token of the metadata "authorization", for
// [WithAPIKeyFunc]. It does not check the token. A call with several values is
// rejected with INVALID_ARGUMENT.
func BearerToken(c *Call) string { return middleware.BearerToken(c.Metadata["authorization"]) }
