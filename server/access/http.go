package access

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/fluxgate/fluxgate/server/config"
)

// Refuse answers a request that goes no further. The context of r knows who
// sent it, as far as that was found out: [Nobody] if it was not.
type Refuse func(w http.ResponseWriter, r *http.Request, status int, detail string)

// Only lets through who has a role on any rule set, with who it is in the
// request's context. On which rule set it is used is for next to look at. Where
// nobody is asked everyone is let through as they come.
func (g *Guard) Only(role config.Role, refuse Refuse, next http.Handler) http.Handler {
	return g.only(role, (*Identity).MayAny, refuse, next)
}

// OnlyAll is Only for what tells of every rule set: it lets through who has a
// role on all of them.
func (g *Guard) OnlyAll(role config.Role, refuse Refuse, next http.Handler) http.Handler {
	return g.only(role, (*Identity).MayAll, refuse, next)
}

func (g *Guard) only(role config.Role, may func(*Identity, config.Role) bool, refuse Refuse, next http.Handler) http.Handler {
	if g.open {
		return next // to say who costs a check two allocations
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.Identify(r)
		if err != nil {
			status, detail := g.Challenge(w.Header(), r, err)
			if !errors.Is(err, ErrAway) { // that is logged already
				g.logRefused(r, detail)
			}
			refuse(w, r.WithContext(With(r.Context(), nobody)), status, detail)
			return
		}
		r = r.WithContext(With(r.Context(), who))
		if !may(who, role) {
			refuse(w, r, http.StatusForbidden, "The role "+string(role)+" is needed, which "+who.Name+" does not have.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logRefused says that callers are refused, once a minute: after a mistake with
// tokens the log of the server must not be silent.
func (g *Guard) logRefused(r *http.Request, why string) {
	if ok, suppressed := g.refusals.Allow(g.now()); ok {
		g.log.Warn("refused a request of an unknown caller", "endpoint", r.Pattern, "peer", r.RemoteAddr, "why", why, "suppressed", suppressed)
	}
}

// Challenge is what a caller is told whom [Guard.Identify] had an error for, and
// with which headers.
func (g *Guard) Challenge(header http.Header, r *http.Request, err error) (status int, detail string) {
	if errors.Is(err, ErrAway) {
		header.Set("Retry-After", "5")
		return http.StatusServiceUnavailable, "The issuer of the token cannot be asked right now."
	}
	header.Set("WWW-Authenticate", "Bearer")
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		if len(r.Header["Authorization"]) > 0 {
			header.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		return http.StatusUnauthorized, "Not accepted: " + refused.why + "."
	case len(g.certificates) > 0:
		return http.StatusUnauthorized, "The request needs a bearer token or a client certificate."
	}
	return http.StatusUnauthorized, "The request needs a bearer token."
}

// Host lets through requests that were meant for this server: those that name
// it localhost, by an address, or by one of hosts, whatever the port and the
// case. A page in somebody's browser can make its own name lead here, but it
// cannot have the browser send another. setting is the key of hosts in the
// configuration, for the refusal.
func Host(setting string, hosts []string, refuse Refuse, next http.Handler) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range hosts {
		known[plainHost(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := plainHost(r.Host)
		if !known[host] {
			if _, err := netip.ParseAddr(host); err != nil {
				refuse(w, r, http.StatusForbidden, "The Host header must be localhost, an address or a name in "+setting+".")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// SameOrigin refuses requests that a browser sends for a page of another site.
// Reading is allowed, since the page does not see the answer, and so are
// programs, which send neither Sec-Fetch-Site nor Origin.
func SameOrigin(refuse Refuse, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, "Requests from pages of other sites are refused.")
	}))
	return protection.Handler(next)
}

// plainHost is a host without its port, brackets, case and the dot at the end.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
