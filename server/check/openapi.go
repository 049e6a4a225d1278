package check

import (
	_ "embed" // the description
	"net/http"
)

// description is the API in OpenAPI 3.1. It is written by hand, as the decoder is: tests
// compare it with the types.
//
//go:embed openapi.json
var description []byte

// Description returns the handler of /openapi.json. It has no data and needs no role, as
// that of the admin API.
func Description() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(description) // the caller may have gone
	})
}
