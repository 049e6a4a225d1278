package access

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/server/config"
)

// Errors of [Guard.Identify].
var (
	// ErrNoCredentials means that the request has no credentials.
	ErrNoCredentials = errors.New("the request has no credentials")
	// ErrRefused means that the credentials are not accepted.
	ErrRefused = errors.New("not accepted")
	// ErrIssuerUnavailable means that the keys of the issuer are not available:
	// the same request may be accepted later.
	ErrIssuerUnavailable = errors.New("the issuer of the token is unavailable")
)

// refusal is an [ErrRefused] with the reason, without a part of the credentials.
type refusal struct{ reason string }

func (r *refusal) Error() string        { return ErrRefused.Error() + ": " + r.reason }
func (r *refusal) Is(target error) bool { return target == ErrRefused }

// badToken returns the refusal of a token.
func badToken(format string, args ...any) error {
	return &refusal{fmt.Sprintf("the token "+format, args...)}
}

// maxToken is the longest token in bytes.
const maxToken = 8 << 10

// Guard authenticates callers. It is safe for concurrent use.
type Guard struct {
	auth         *config.Auth
	open         bool
	tokens       atomic.Pointer[tokens]
	certificates certificates
	oidc         *provider // nil if there is none
	now          func() time.Time
	log          *slog.Logger
	refusals     *logthrottle.Throttle // of log lines about refused callers
	pages        *logthrottle.Throttle // of those about requests of web pages
}

// New returns a guard for a checked configuration. It reads the files of the
// configuration. It connects to the issuer at the first token. A nil logger
// means slog.Default().
func New(c *config.Server, log *slog.Logger) (*Guard, error) {
	log = cmp.Or(log, slog.Default())
	g := &Guard{
		auth: &c.Auth, open: !c.Auth.Asks(), certificates: newCertificates(c.Auth.Certificates), now: time.Now,
		log: log, refusals: logthrottle.New(time.Minute), pages: logthrottle.New(time.Minute),
	}
	if c.Auth.OIDC.Issuer != "" {
		g.oidc = newProvider(&c.Auth.OIDC, log)
	}
	if err := g.Reload(); err != nil {
		return nil, err
	}
	return g, nil
}

// Reload reads the files again: the tokens, and the certificate authorities of the
// issuer. If any of them is invalid nothing changes.
func (g *Guard) Reload() error {
	accepted, err := loadTokens(g.auth)
	if err != nil {
		return fmt.Errorf("loading server.auth: %w", err)
	}
	if g.oidc != nil {
		if err := g.oidc.keys.loadCA(g.auth.OIDC.CAFile); err != nil {
			return fmt.Errorf("loading server.auth: %w", err)
		}
	}
	g.tokens.Store(&accepted)
	return nil
}

// Open reports whether there is no authentication: the configuration names no
// callers.
func (g *Guard) Open() bool { return g.open }

// Identify returns the identity of the caller that sent a request.
func (g *Guard) Identify(r *http.Request) (*Identity, error) {
	leaf := verified(r.TLS, g.now())
	if g.open {
		if leaf != nil {
			return &Identity{Name: described(leaf), roles: anonymous.roles}, nil
		}
		return anonymous, nil
	}
	if len(r.Header["Authorization"]) > 0 {
		return g.bearer(r)
	}
	if leaf == nil || len(g.certificates) == 0 {
		return nil, ErrNoCredentials
	}
	if who := g.certificates.find(leaf); who != nil {
		return who, nil
	}
	return nil, &refusal{"the certificate is not listed in server.auth.certificates"}
}

// bearer returns the identity for the bearer token of a request.
func (g *Guard) bearer(r *http.Request) (*Identity, error) {
	value := httplimit.BearerToken(r)
	switch {
	case value == "":
		return nil, badToken("must be a single bearer token")
	case len(value) > maxToken:
		return nil, badToken("is longer than %d bytes", maxToken)
	}
	if who := g.tokens.Load().find(sha256.Sum256([]byte(value))); who != nil {
		return who, nil
	}
	if g.oidc != nil && isJWT(value) {
		return g.oidc.identify(r.Context(), value)
	}
	return nil, badToken("is not known")
}

// isJWT reports whether a token may have the form of a JWT: three parts, and no JSON.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 && !strings.Contains(token, "{") }
