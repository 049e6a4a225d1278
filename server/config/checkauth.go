package config

import (
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

// Asks reports whether callers must authenticate. That is so as soon as a setting
// names a way to, even if no caller can at the moment.
func (a *Auth) Asks() bool {
	return len(a.Tokens) > 0 || a.TokensFile != "" || len(a.Certificates) > 0 || a.OIDC.Issuer != ""
}

func (k *checker) auth() {
	auth := &k.Server.Auth
	k.callers("server.auth.tokens", checkTokens(auth.Tokens))
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
		k.refuse("server.auth.certificates", "needs server.tls.client-ca-file, which certificates are verified with")
	}
	k.callers("server.auth.certificates", checkCertificates(auth.Certificates))
	k.oidc()
}

// callerProblem is a problem with an item of a list of callers.
type callerProblem struct {
	item         int
	key, message string // the key as it follows the item in a place
}

type callerProblems []callerProblem

func (p *callerProblems) refuse(item int, key, message string) {
	*p = append(*p, callerProblem{item, key, message})
}

// common checks what tokens and certificates have in common.
func (p *callerProblems) common(item int, name string, taken map[string]bool, roles []Role, ruleSets []string) {
	switch {
	case !fluxgate.ValidID(name):
		p.refuse(item, ".name", "must have "+idForm)
	case taken[name]:
		p.refuse(item, ".name", "is already used by another entry")
	}
	taken[name] = true
	if len(roles) == 0 || slices.ContainsFunc(roles, func(r Role) bool { return !slices.Contains(Roles, r) }) {
		p.refuse(item, ".roles", "must have at least one of check, read, write, and no other")
	}
	for i, id := range ruleSets {
		if !fluxgate.ValidID(id) {
			p.refuse(item, fmt.Sprintf(".rule-sets[%d]", i), "must be the id of a rule set: "+idForm)
		}
	}
}

func checkTokens(tokens []Token) (found callerProblems) {
	names, hashes := map[string]bool{}, map[string]bool{}
	for i, t := range tokens {
		found.common(i, t.Name, names, t.Roles, t.RuleSets)
		digits := strings.ToLower(string(t.SHA256))
		hash, err := hex.DecodeString(digits)
		switch {
		case err != nil || len(hash) != 32:
			found.refuse(i, ".sha256", "must be the SHA-256 of the token in 64 hexadecimal digits, as printf %s \"$TOKEN\" | sha256sum prints it")
		case hashes[digits]:
			found.refuse(i, ".sha256", "is already used by another entry")
		}
		hashes[digits] = true
	}
	return found
}

func checkCertificates(certificates []Certificate) (found callerProblems) {
	names, subjects := map[string]bool{}, map[string]bool{}
	for i, c := range certificates {
		found.common(i, c.Name, names, c.Roles, c.RuleSets)
		switch {
		case c.Subject == "":
			found.refuse(i, ".subject", "must be the subject of the certificate, such as spiffe://example.com/ops or ops.example.com")
		case subjects[c.Subject]:
			found.refuse(i, ".subject", "is already used by another entry")
		}
		subjects[c.Subject] = true
	}
	return found
}

func (k *checker) callers(key string, found callerProblems) {
	for _, p := range found {
		k.refuse(fmt.Sprintf("%s[%d]%s", key, p.item, p.key), "%s", p.message)
	}
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
		k.refuse("server.auth.oidc.audience", "must be the audience of tokens: without it a token for any other service of the issuer would be accepted")
	}
	for _, c := range []struct{ key, value string }{{"name-claim", o.NameClaim}, {"roles-claim", o.RolesClaim}} {
		if c.value == "" {
			k.refuse("server.auth.oidc."+c.key, "must name a claim")
		}
	}
	k.caFile("server.auth.oidc.ca-file", o.CAFile)
}

// checkIssuer checks the URL of an issuer. The error does not show it.
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

// CheckSecure refuses a URL whose traffic others could read or change: one that
// is not https, unless it is on this machine. The error does not show it.
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

// audit checks the file of the audit, which need not exist yet.
func (k *checker) audit() {
	name := k.Server.Audit.File
	if name == "" {
		return
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		k.refuse("server.audit.file", "is not a file")
		return
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		k.refuse("server.audit.file", "is in a folder that does not exist")
	}
}
