package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

// buildAccess sets up authentication.
func (a *App) buildAccess(context.Context) error {
	var err error
	if a.guard, err = access.New(&a.config.Server, a.log); err != nil {
		return err
	}
	if a.guard.Open() && a.config.Server.TLS.ClientCAFile == "" {
		a.log.Warn("no authentication: any client that reaches the server may call it; set server.auth or restrict the network",
			"http", a.config.Server.HTTP, "grpc", cmp.Or(a.config.Server.GRPC, "off"))
	}
	return nil
}

// only passes requests of callers that have a role on any rule set.
func (a *App) only(role config.Role, next http.Handler) http.Handler {
	return a.guard.Only(role, refuse, next)
}

// refuse answers with a problem document.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	rejection := httplimit.Rejection{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}}
	rejection.Write(w, r)
}

// withNotFound adds the answers 404 and 405 to requests without a route.
func withNotFound(mux *http.ServeMux) http.Handler {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			refuse(w, r, http.StatusMethodNotAllowed, "Use "+strings.Join(allowed, " or ")+".")
			return
		}
		refuse(w, r, http.StatusNotFound, "No such endpoint.")
	})
	return mux
}
