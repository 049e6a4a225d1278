package config

import (
	"errors"
	"net/url"
	"strings"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Asks reports whether callers must authenticate: whether a setting names a way to
// authenticate, even if no caller can use it at the moment.
func (a *Auth) Asks() bool {
	return len(a.Tokens) > 0 || a.TokensFile != "" || len(a.Certificates) > 0 || a.OIDC.Issuer != ""
}

func (k *checker) auth() {
	auth := &k.Server.Auth
	_, err := auth.AllTokens()
	var invalid *Error
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			k.found.Add(p)
		}
	} else {
		k.refuseErr("server.auth.tokens-file", unreadable(err))
	}
	if len(auth.Certificates) > 0 && k.Server.TLS.ClientCAFile == "" {
		k.refuse("server.auth.certificates", "needs server.tls.client-ca-file, which verifies certificates")
	}
	k.oidc()
}

func (k *checker) oidc() {
	o := &k.Server.Auth.OIDC
	if o.Issuer == "" {
		for _, c := range []struct{ key, value string }{
			{"audience", o.Audience}, {"rule-sets-claim", o.RuleSetsClaim}, {"ca-file", o.CAFile},
		} {
			if c.value != "" {
				k.refuse("server.auth.oidc."+c.key, "needs server.auth.oidc.issuer")
			}
		}
		return
	}
	k.refuseErr("server.auth.oidc.issuer", checkIssuer(o.Issuer))
	if o.Audience == "" {
		k.refuse("server.auth.oidc.audience",
			"must be the audience of tokens: without it a token for any other service of the issuer would be accepted")
	}
}

// checkIssuer checks the URL of an issuer. The error does not show it.
func checkIssuer(u URI) error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || checkHTTP(u) != nil:
		return errors.New("must be a URL such as https://login.example.com/realms/ops")
	case parsed.User != nil || strings.ContainsAny(string(u), "?#"):
		return errors.New("must be a URL without credentials, query and fragment")
	}
	return u.CheckSecure()
}

// CheckSecure rejects a URL that is not https, unless it is on this machine: others
// could read or change its traffic. The error does not show the URL.
func (u URI) CheckSecure() error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || parsed.Host == "":
		return errors.New("must be a URL with a host")
	case parsed.Scheme != "https" && (parsed.Scheme != "http" || !syntax.IsLoopback(parsed.Hostname())):
		return errors.New("must begin with https://, unless it is on this machine")
	}
	return nil
}
