package config

import (
	"crypto/tls"
	"net"
	"slices"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// listeners refuses an admin API that anyone can reach.
func (k *checker) listeners() {
	host, _, _ := net.SplitHostPort(k.Server.Admin) // checked by its form
	if k.Server.Admin != "" && !syntax.IsLoopback(host) && !k.hasAuth() {
		k.refuse("server.admin", "is not on loopback, where the admin API needs authentication: "+
			"set server.auth.tokens, server.auth.tokens-file, server.auth.oidc.issuer or server.tls.client-ca-file, "+
			"or listen on 127.0.0.1")
	}
}

func (k *checker) hasAuth() bool {
	t := &k.Server.TLS
	return k.Server.Auth.Asks() || t.ClientCAFile != "" && slices.Contains(t.Listeners, "admin")
}

func (k *checker) tls() {
	t := &k.Server.TLS
	k.keyPair("server.tls", t.CertFile, t.KeyFile)
	if t.ClientCAFile != "" && t.CertFile == "" {
		k.refuse("server.tls.client-ca-file", "needs server.tls.cert-file: only TLS can ask for a certificate")
	}
}

// keyPair checks a certificate and its key, in the settings below a key.
func (k *checker) keyPair(below, certFile, keyFile string) {
	certKey, keyKey := below+".cert-file", below+".key-file"
	switch {
	case certFile != "" && keyFile == "":
		k.refuse(certKey, "needs %s", keyKey)
	case certFile == "" && keyFile != "":
		k.refuse(keyKey, "needs %s", certKey)
	case certFile != "":
		_, certErr := ReadFile(certFile)
		_, keyErr := ReadFile(keyFile)
		k.refuseErr(certKey, unreadable(certErr))
		k.refuseErr(keyKey, unreadable(keyErr))
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil && certErr == nil && keyErr == nil {
			k.refuse(certKey, "does not match %s: %v", keyKey, err)
		}
	}
}

func (k *checker) forwardAuth() {
	if s := k.ForwardAuth.DenyStatus; s != 401 && s != 403 && s != 429 {
		k.refuse("forward-auth.deny-status", "must be 401, 403 or 429, not %d", s)
	}
}
