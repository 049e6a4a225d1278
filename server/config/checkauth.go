package config

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Asks reports whether callers are asked who they are: because the
// configuration speaks of somebody, not because anybody is left.
func (a *Auth) Asks() bool {
	return len(a.Tokens) > 0 || a.TokensFile != "" || len(a.Certificates) > 0 || a.OIDC.Issuer != ""
}

func (k *checker) auth() {
	auth := &k.Server.Auth
	for _, wrong := range wrongTokens(auth.Tokens) {
		k.refuse("server.auth.tokens"+wrong.Place, "%s", wrong.Message)
	}
	if name := auth.TokensFile; name != "" && k.readable("server.auth.tokens-file", name) {
		var invalid *Error
		switch _, err := auth.AllTokens(); {
		case errors.As(err, &invalid):
			for _, p := range invalid.Problems {
				k.found.add(p)
			}
		case err != nil:
			k.refuse("server.auth.tokens-file", "%v", err)
		}
	}
	if len(auth.Certificates) > 0 && k.Server.TLS.ClientCAFile == "" {
		k.refuse("server.auth.certificates", "needs server.tls.client-ca-file: nobody vouches for them without it")
	}
	for _, wrong := range wrongCertificates(auth.Certificates) {
		k.refuse("server.auth.certificates"+wrong.Place, "%s", wrong.Message)
	}
	k.oidc()
}

// wrong is what is wrong in a list of callers.
type wrong struct{ found []Problem }

func (w *wrong) refuse(i int, key, message string) {
	w.found = append(w.found, Problem{Place: fmt.Sprintf("[%d]%s", i, key), Message: message})
}

// rights looks at what a caller may do.
func (w *wrong) rights(i int, roles []Role, ruleSets []string) {
	if len(roles) == 0 || slices.ContainsFunc(roles, func(r Role) bool { return !slices.Contains(Roles, r) }) {
		w.refuse(i, ".roles", "must have at least one of check, read, write, and no other")
	}
	for j, id := range ruleSets {
		if !fluxgate.ValidID(id) {
			w.refuse(i, fmt.Sprintf(".rule-sets[%d]", j), "must be the id of a rule set: 1 to 64 letters, digits, dots, dashes and underscores")
		}
	}
}

// name looks at what a caller is called.
func (w *wrong) name(i int, name, kind string, taken map[string]bool) {
	switch {
	case !fluxgate.ValidID(name):
		w.refuse(i, ".name", "must have 1 to 64 letters, digits, dots, dashes and underscores")
	case taken[name]:
		w.refuse(i, ".name", "is the name of another "+kind+" already")
	}
	taken[name] = true
}

// wrongTokens is what is wrong in a list of tokens.
func wrongTokens(tokens []Token) []Problem {
	var w wrong
	names, hashes := map[string]bool{}, map[Hash]bool{}
	for i, t := range tokens {
		w.name(i, t.Name, "token", names)
		hash, err := hex.DecodeString(string(t.SHA256))
		switch {
		case err != nil || len(hash) != 32:
			w.refuse(i, ".sha256", "must be the SHA-256 of the token in 64 hexadecimal digits, as printf %s \"$TOKEN\" | sha256sum prints it")
		case hashes[Hash(strings.ToLower(string(t.SHA256)))]:
			w.refuse(i, ".sha256", "is that of another token already")
		}
		hashes[Hash(strings.ToLower(string(t.SHA256)))] = true
		w.rights(i, t.Roles, t.RuleSets)
	}
	return w.found
}

// wrongCertificates is what is wrong in a list of certificates.
func wrongCertificates(certificates []Certificate) []Problem {
	var w wrong
	names, subjects := map[string]bool{}, map[string]bool{}
	for i, c := range certificates {
		w.name(i, c.Name, "certificate", names)
		switch {
		case c.Subject == "":
			w.refuse(i, ".subject", "must say whom the certificate is for, such as spiffe://example.com/ops or ops.example.com")
		case subjects[c.Subject]:
			w.refuse(i, ".subject", "is that of another certificate already")
		}
		subjects[c.Subject] = true
		w.rights(i, c.Roles, c.RuleSets)
	}
	return w.found
}

func (k *checker) oidc() {
	o := &k.Server.Auth.OIDC
	if o.Issuer == "" {
		for _, c := range []struct{ key, value string }{{"audience", o.Audience}, {"rule-sets-claim", o.RuleSetsClaim}, {"ca-file", o.CAFile}} {
			if c.value != "" {
				k.refuse("server.auth.oidc."+c.key, "needs server.auth.oidc.issuer")
			}
		}
		return
	}
	k.refuseErr("server.auth.oidc.issuer", checkIssuer(o.Issuer))
	if o.Audience == "" {
		k.refuse("server.auth.oidc.audience", "must say whom tokens are for: without it a token for any other service of the issuer would do here")
	}
	for _, c := range []struct{ key, value string }{{"name-claim", o.NameClaim}, {"roles-claim", o.RolesClaim}} {
		if c.value == "" {
			k.refuse("server.auth.oidc."+c.key, "must name a claim")
		}
	}
	if o.CAFile != "" && k.readable("server.auth.oidc.ca-file", o.CAFile) {
		data, err := readFile(o.CAFile)
		if err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
			k.refuse("server.auth.oidc.ca-file", "has no certificate as PEM in it")
		}
	}
}

// checkIssuer reports what is wrong with the URL of an issuer, without showing
// it.
func checkIssuer(u URI) error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || checkHTTP(u) != nil:
		return errors.New("must be a URL such as https://login.example.com/realms/ops")
	case parsed.User != nil || strings.ContainsAny(string(u), "?#"):
		return errors.New("must be a URL without credentials, question mark and fragment")
	}
	return u.CheckSecure()
}

// CheckSecure refuses what others could read or answer in its place: a URL that
// is not https, unless it leads to this machine. The error does not show it.
func (u URI) CheckSecure() error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || parsed.Host == "":
		return errors.New("must be a URL with a host")
	case parsed.Scheme != "https" && (parsed.Scheme != "http" || !syntax.IsLoopback(parsed.Hostname())):
		return errors.New("must begin with https://, since it is not on this machine")
	}
	return nil
}

// audit looks at where the record is kept. The file itself may come later.
func (k *checker) audit() {
	name := k.Server.Audit.File
	if name == "" {
		return
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		k.refuse("server.audit.file", "names something that is not a file")
		return
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		k.refuse("server.audit.file", "names a file in a folder that is not there")
	}
}
