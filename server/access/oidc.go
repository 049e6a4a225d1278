package access

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

// signing are the accepted algorithms: asymmetric ones only.
var signing = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// provider accepts the tokens of one issuer.
type provider struct {
	config   *config.OIDC
	verifier oidc.Config
	keys     keys
	now      func() time.Time
}

func newProvider(c *config.OIDC, log *slog.Logger) *provider {
	p := &provider{config: c, now: time.Now}
	p.keys = keys{
		issuer: string(c.Issuer), log: log, timeout: fetchTimeout,
		now: func() time.Time { return p.now() },
	}
	p.verifier = oidc.Config{ClientID: c.Audience, SupportedSigningAlgs: signing, Now: p.keys.now}
	return p
}

// identify returns the identity in a token.
func (p *provider) identify(ctx context.Context, raw string) (*Identity, error) {
	// go-oidc keeps only the text of this error.
	refused := badToken("is malformed, or has a signature algorithm that is not accepted")
	token, err := oidc.NewVerifier(p.keys.issuer, keySetFunc(func(ctx context.Context, token string) ([]byte, error) {
		var payload []byte
		payload, refused = p.keys.verify(ctx, token)
		return payload, refused
	}), &p.verifier).Verify(ctx, raw)
	var expired *oidc.TokenExpiredError
	switch {
	case refused != nil:
		return nil, refused
	case errors.As(err, &expired):
		return nil, badToken("has expired")
	case err != nil:
		return nil, badToken("has another issuer or audience, or is not valid yet")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, badToken("has malformed claims")
	}
	return p.identity(claims)
}

// identity returns the identity in the claims of a token.
func (p *provider) identity(claims map[string]any) (*Identity, error) {
	const kind = "oidc:"
	name, _ := claim(claims, p.config.NameClaim).(string)
	if !isName(name) || !isName(kind+name) {
		return nil, badToken("has no valid name in claim %s", p.config.NameClaim)
	}
	var roles []config.Role
	for _, value := range words(claim(claims, p.config.RolesClaim)) {
		for _, role := range config.Roles {
			if value == p.config.RolePrefix+string(role) {
				roles = append(roles, role)
			}
		}
	}
	who := newIdentity(kind+name, roles, nil)
	if p.config.RuleSetsClaim != "" {
		var ids []string
		for _, id := range words(claim(claims, p.config.RuleSetsClaim)) {
			if id == "*" {
				return who, nil
			}
			if rules.ValidID(id) {
				ids = append(ids, id)
			}
		}
		who.restrict(ids)
	}
	return who, nil
}

// claim returns the value of a claim. Dots separate nested names, unless a claim
// has them in its own name, as in https://example.com/roles.
func claim(claims map[string]any, path string) any {
	if value, ok := claims[path]; ok {
		return value
	}
	name, rest, _ := strings.Cut(path, ".")
	inner, _ := claims[name].(map[string]any)
	if inner == nil {
		return nil
	}
	return claim(inner, rest)
}

// words returns the strings of a claim: those of a list, or the words of a string.
func words(value any) []string {
	switch value := value.(type) {
	case string:
		return strings.Fields(value)
	case []any:
		var words []string
		for _, item := range value {
			if word, ok := item.(string); ok {
				words = append(words, word)
			}
		}
		return words
	}
	return nil
}

// keySetFunc is an [oidc.KeySet].
type keySetFunc func(ctx context.Context, token string) ([]byte, error)

func (f keySetFunc) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	return f(ctx, token)
}
