package httplimit

import (
	"net/http"
	"net/textproto"

	"github.com/fluxgate/fluxgate/internal/middleware"
)

// ErrRepeatedHeader is the error of a request with several lines of a header that
// [Header] or [BearerToken] reads: the handler may use another line than the
// limiter.
var ErrRepeatedHeader = middleware.ErrRepeatedHeader

// Header is a function that reads a header, for [WithAPIKeyFunc],
// [WithUserFunc] and [WithAttribute]. Clients can set the header unless a proxy
// overwrites it. A request with several lines of it is rejected with 400.
func Header(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return func(r *http.Request) string { return middleware.OneLine(r.Header[name]) }
}

// BearerToken reads the token of an Authorization header, for
// [WithAPIKeyFunc]. It does not check the token. A request with several lines of
// the header is rejected with 400.
func BearerToken(r *http.Request) string {
	return middleware.BearerToken(r.Header["Authorization"])
}
