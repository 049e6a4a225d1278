package config

import (
	"crypto/tls"
	"net"
	"slices"
	"strconv"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

func (k *checker) listeners() {
	s := &k.Server
	taken := map[string]string{}
	for _, l := range []struct{ key, addr string }{
		{"server.http", s.HTTP}, {"server.grpc", s.GRPC}, {"server.admin", s.Admin}, {"server.metrics", s.Metrics},
	} {
		if l.addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(l.addr)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || host != "" && !syntax.IsHost(host) {
			k.refuse(l.key, "must be of the form host:port, or :port for all addresses, not %s", show(l.addr))
			continue
		}
		if other := taken[l.addr]; other != "" && n > 0 {
			k.refuse(l.key, "is also the address of %s", other)
		}
		taken[l.addr] = l.key
		if l.key == "server.admin" && !syntax.IsLoopback(host) && !k.hasAuth() {
			k.refuse(l.key, "is not on loopback, where the admin API needs authentication: "+
				"set server.auth.tokens, server.auth.tokens-file, server.auth.oidc.issuer or server.tls.client-ca-file, "+
				"or listen on 127.0.0.1:%s", port)
		}
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
		certErr, keyErr := checkReadable(certFile), checkReadable(keyFile)
		k.refuseErr(certKey, certErr)
		k.refuseErr(keyKey, keyErr)
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil && certErr == nil && keyErr == nil {
			k.refuse(certKey, "does not match %s: %v", keyKey, err)
		}
	}
}

func (k *checker) forwardAuth() {
	f := &k.ForwardAuth
	if s := f.DenyStatus; s != 401 && s != 403 && s != 429 {
		k.refuse("forward-auth.deny-status", "must be 401, 403 or 429, not %d", s)
	}
	if f.Enabled {
		k.required("forward-auth.deny-header", "forward-auth.method-header", "forward-auth.uri-header", "forward-auth.host-header")
	}
}
