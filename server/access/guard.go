package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/server/config"
)

// Why a caller is not known. Errors of [Guard.Identify] are one of them.
var (
	// ErrNobody means that the request says nothing of who sent it.
	ErrNobody = errors.New("the request does not say who it is from")
	// ErrRefused means that it says something that is not accepted, and the
	// error why.
	ErrRefused = errors.New("not accepted")
	// ErrAway means that the issuer cannot be asked: the same request may be
	// accepted later.
	ErrAway = errors.New("the issuer of the token cannot be asked")
)

// refusal is an [ErrRefused] with the reason, in words that have nothing of what
// was sent.
type refusal struct{ why string }

func (r *refusal) Error() string        { return ErrRefused.Error() + ": " + r.why }
func (r *refusal) Is(target error) bool { return target == ErrRefused }

// badToken is the refusal of a token.
func badToken(format string, args ...any) error {
	return &refusal{fmt.Sprintf("the token "+format, args...)}
}

// maxToken is how long a token can be, in bytes.
const maxToken = 8 << 10

// Guard knows who may call. It is safe for concurrent use.
type Guard struct {
	auth         *config.Auth
	open         bool
	tokens       atomic.Pointer[tokens]
	certificates certificates
	oidc         *provider // nil if there is none
	now          func() time.Time
	log          *slog.Logger
	refusals     *logthrottle.Throttle // of log lines about refused callers
}

// New makes a guard for a configuration that was checked. It reads the files of
// that, and connects to nobody: an issuer is asked when its first token comes.
// A nil logger means slog.Default().
func New(c *config.Server, log *slog.Logger) (*Guard, error) {
	if log == nil {
		log = slog.Default()
	}
	g := &Guard{
		auth: &c.Auth, open: !c.Auth.Asks(), certificates: newCertificates(c.Auth.Certificates), now: time.Now,
		log: log, refusals: logthrottle.New(time.Minute),
	}
	if c.Auth.OIDC.Issuer != "" {
		g.oidc = newProvider(&c.Auth.OIDC, log)
	}
	if err := g.Reload(); err != nil {
		return nil, err
	}
	return g, nil
}

// Reload reads the files anew: the tokens, and who vouches for the issuer. If
// any of them is bad nothing changes.
func (g *Guard) Reload() error {
	accepted, err := loadTokens(g.auth)
	if err != nil {
		return fmt.Errorf("loading who may call: %w", err)
	}
	if g.oidc != nil {
		if err := g.oidc.reload(); err != nil {
			return fmt.Errorf("loading who may call: %w", err)
		}
	}
	g.tokens.Store(&accepted)
	return nil
}

// Open reports whether nobody is asked who they are: because the configuration
// speaks of nobody, not because nobody is left.
func (g *Guard) Open() bool { return g.open }

// Identify finds out who sent a request.
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
		return nil, ErrNobody
	}
	if who := g.certificates.find(leaf); who != nil {
		return who, nil
	}
	return nil, &refusal{"the certificate is for nobody who may call"}
}

// bearer is who a token says.
func (g *Guard) bearer(r *http.Request) (*Identity, error) {
	value := httplimit.BearerToken(r)
	switch {
	case value == "":
		return nil, badToken("must be one bearer token")
	case len(value) > maxToken:
		return nil, badToken("is longer than %d bytes", maxToken)
	}
	sum := sha256.Sum256([]byte(value))
	if who := g.tokens.Load().find(&sum); who != nil {
		return who, nil
	}
	if g.oidc != nil && isJWT(value) {
		return g.oidc.identify(r.Context(), value, sum)
	}
	return nil, badToken("is not known")
}

// isJWT reports whether a token has the form of those that issuers sign: three
// parts in base64url.
func isJWT(token string) bool {
	dots := 0
	for i := range len(token) {
		switch c := token[i]; {
		case c == '.':
			dots++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}
