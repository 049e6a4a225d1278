package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/server/config"
)

// tokens are the bearer tokens that are accepted.
type tokens struct{ all []token }

// token is one of them, as its hash.
type token struct {
	config.Token
	sum [sha256.Size]byte
}

// find is the token with a value. It looks at all of them, so that the time it
// takes tells nothing.
func (t *tokens) find(value string) *token {
	if value == "" {
		return nil // whatever its hash is
	}
	sum := sha256.Sum256([]byte(value))
	var found *token
	for i := range t.all {
		if subtle.ConstantTimeCompare(sum[:], t.all[i].sum[:]) == 1 {
			found = &t.all[i]
		}
	}
	return found
}

// buildAccess loads who may call.
func (a *App) buildAccess(context.Context) error {
	if err := a.loadTokens(); err != nil {
		return err
	}
	if a.open() && a.config.Server.TLS.ClientCAFile == "" {
		a.log.Warn("whoever reaches this server may call it: set server.auth, or a network that keeps others out", "http", a.config.Server.HTTP)
	}
	return nil
}

func (a *App) loadTokens() error {
	listed, err := a.config.Server.Auth.AllTokens()
	if err != nil {
		return err
	}
	accepted := new(tokens)
	for _, t := range listed {
		raw, err := hex.DecodeString(string(t.SHA256))
		if err != nil || len(raw) != sha256.Size || [sha256.Size]byte(raw) == sha256.Sum256(nil) {
			return fmt.Errorf("the hash of token %q is not that of a token", t.Name)
		}
		accepted.all = append(accepted.all, token{t, [sha256.Size]byte(raw)})
	}
	a.tokens.Store(accepted)
	return nil
}

// open reports whether nobody is asked for a token: because the configuration
// speaks of none, not because there are none left.
func (a *App) open() bool {
	auth := &a.config.Server.Auth
	return len(auth.Tokens) == 0 && auth.TokensFile == ""
}

// only lets through who may do what a role is for. If the configuration speaks
// of no tokens everyone may.
func (a *App) only(role config.Role, next http.Handler) http.Handler {
	if a.open() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := a.tokens.Load().find(httplimit.BearerToken(r))
		switch {
		case token == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, "The request needs a bearer token.")
		case !slices.Contains(token.Roles, role):
			refuse(w, r, http.StatusForbidden, "The token does not have the role "+string(role)+".")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// local lets through requests that were meant for this machine: a page in a
// browser on it may not ask in its owner's name.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			refuse(w, r, http.StatusForbidden, "Ask for localhost here.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	rejection := httplimit.Rejection{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}}
	rejection.Write(w, r)
}

// known adds what is answered where no route is, also where only the method is
// wrong.
func known(mux *http.ServeMux) http.Handler {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
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
		refuse(w, r, http.StatusNotFound, "There is nothing here.")
	})
	return mux
}
