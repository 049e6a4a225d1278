package access

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/server/config"
)

// Refuse rejects a request with a problem document.
func Refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	rejection := httplimit.Rejection{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}}
	rejection.Write(w, r)
}

// Only passes requests of callers that have a role on any rule set, with their
// identity in the context. next must check the rule set. Without authentication
// it passes all requests unchanged.
func (g *Guard) Only(role config.Role, next http.Handler) http.Handler {
	return g.only(role, (*Identity).MayAny, next)
}

// OnlyAll is Only for answers about every rule set: callers need the role on all
// of them.
func (g *Guard) OnlyAll(role config.Role, next http.Handler) http.Handler {
	return g.only(role, (*Identity).MayAll, next)
}

func (g *Guard) only(role config.Role, allowed func(*Identity, config.Role) bool, next http.Handler) http.Handler {
	if g.open {
		return next // the identity would cost a check two allocations
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, status, detail := g.Authenticate(w.Header(), r)
		if who == nil {
			Refuse(w, r, status, detail)
			return
		}
		r = r.WithContext(With(r.Context(), who))
		if !allowed(who, role) {
			Refuse(w, r, http.StatusForbidden, who.Name+" does not have the role "+string(role)+".")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Authenticate returns the identity of the caller. For a rejected caller it returns nil
// and the answer, sets the headers of the answer, and logs the rejection.
func (g *Guard) Authenticate(header http.Header, r *http.Request) (who *Identity, status int, detail string) {
	who, err := g.Identify(r)
	if err == nil {
		return who, http.StatusOK, ""
	}
	status, detail = g.Challenge(header, r, err)
	if !errors.Is(err, ErrIssuerUnavailable) { // logged already
		g.logRefused(r, detail)
	}
	return nil, status, detail
}

// logRefused logs refused callers, at most once a minute, so that a mistake with
// tokens shows in the log.
func (g *Guard) logRefused(r *http.Request, reason string) {
	if ok, suppressed := g.refusals.Allow(g.now()); ok {
		g.log.Warn("request rejected: caller not authenticated",
			"endpoint", r.Pattern, "peer", r.RemoteAddr, "reason", reason, logthrottle.Suppressed(suppressed))
	}
}

// Challenge returns the answer to a caller after an error of [Guard.Identify], and
// sets its headers.
func (g *Guard) Challenge(header http.Header, r *http.Request, err error) (status int, detail string) {
	if errors.Is(err, ErrIssuerUnavailable) {
		header.Set("Retry-After", "5")
		return http.StatusServiceUnavailable, "The issuer of the token is unavailable: try again later."
	}
	header.Set("WWW-Authenticate", "Bearer")
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		if len(r.Header["Authorization"]) > 0 {
			header.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		return http.StatusUnauthorized, "Not accepted: " + refused.reason + "."
	case len(g.certificates) > 0:
		return http.StatusUnauthorized, "The request needs a bearer token or a client certificate."
	}
	return http.StatusUnauthorized, "The request needs a bearer token."
}

// Host passes requests whose Host header is localhost, an address, or one of
// hosts, whatever the port and the case. A web page can make its own host name
// resolve to this server (DNS rebinding), but the browser then sends that name.
// setting is the key of hosts in the configuration, for the error message. rejected is called
// for each rejected request.
func Host(setting string, hosts []string, rejected Rejected, next http.Handler) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range hosts {
		known[plainHost(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := plainHost(r.Host)
		if !known[host] {
			if _, err := netip.ParseAddr(host); err != nil {
				rejected.answer(w, r, WrongHost, "The Host header must be localhost, an address or a name in "+setting+".")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// SameOrigin rejects requests that a browser sends for a page of another site.
// Reads pass, since the page does not see the answer. Programs pass, since they
// send neither Sec-Fetch-Site nor Origin. rejected is called for each rejected request.
func SameOrigin(rejected Rejected, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rejected.answer(w, r, CrossSite, "Requests from pages of other sites are rejected.")
	}))
	return protection.Handler(next)
}

// Why [Host] and [SameOrigin] reject a request.
const (
	WrongHost = "wrong-host"
	CrossSite = "cross-site"
)

// Rejected records a request that [Host] or [SameOrigin] rejects: why, and the detail of the
// answer with the method, the path, the host and the origin of the request. All of them are the
// caller's: it must bound its records and their texts.
type Rejected func(r *http.Request, why, detail string)

// answer rejects a request and records it.
func (rejected Rejected) answer(w http.ResponseWriter, r *http.Request, why, detail string) {
	sent := fmt.Sprintf(" %s %s, Host %q", r.Method, r.URL.Path, r.Host)
	if origin := r.Header.Get("Origin"); origin != "" {
		sent += fmt.Sprintf(", Origin %q", origin)
	}
	rejected(r, why, detail+sent)
	Refuse(w, r, http.StatusForbidden, detail)
}

// LogPage is a [Rejected] that logs, at most once a minute.
func (g *Guard) LogPage(r *http.Request, why, detail string) {
	if ok, suppressed := g.pages.Allow(g.now()); ok {
		g.log.Warn("request rejected: of a web page of another site or host",
			"why", why, "peer", r.RemoteAddr, "detail", printable.Text(detail, 1_000), logthrottle.Suppressed(suppressed))
	}
}

// plainHost returns a host in lower case without port, brackets and final dot.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
