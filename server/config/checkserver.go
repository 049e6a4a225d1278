package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Bounds of a secret, in bytes. A short one can be guessed from its output.
const (
	minSecret = 16
	maxSecret = 64 << 10
)

func (k *checker) listeners() {
	s := &k.Server
	if s.HTTP == "" {
		k.refuse("server.http", "must be the address to listen on, such as :8080")
	}
	taken := map[string]string{}
	for _, l := range []struct{ key, addr string }{{"server.http", s.HTTP}, {"server.grpc", s.GRPC}, {"server.admin", s.Admin}} {
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
				"set server.auth.tokens, server.auth.tokens-file, server.auth.oidc.issuer or server.tls.client-ca-file, or listen on 127.0.0.1:%s", port)
		}
	}
}

func (k *checker) hasAuth() bool {
	return k.Server.Auth.Asks() || k.Server.TLS.ClientCAFile != ""
}

// hosts refuses names that no Host header has.
func (k *checker) hosts(key string, names []string) {
	for i, name := range names {
		if !syntax.IsHost(name) {
			k.refuse(fmt.Sprintf("%s[%d]", key, i), "must be a name without a port, such as fluxgate.example.com")
		}
	}
}

func (k *checker) tls() {
	t := &k.Server.TLS
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		k.refuse("server.tls.cert-file", "needs server.tls.key-file")
	case t.CertFile == "" && t.KeyFile != "":
		k.refuse("server.tls.key-file", "needs server.tls.cert-file")
	case t.CertFile != "":
		if k.readable("server.tls.cert-file", t.CertFile) && k.readable("server.tls.key-file", t.KeyFile) {
			if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
				k.refuse("server.tls.cert-file", "does not match server.tls.key-file: %v", err)
			}
		}
	}
	if t.ClientCAFile == "" {
		return
	}
	if t.CertFile == "" {
		k.refuse("server.tls.client-ca-file", "needs server.tls.cert-file: only TLS can ask for a certificate")
	}
	k.caFile("server.tls.client-ca-file", t.ClientCAFile)
}

// caFile refuses a file without certificates, unless it is not set.
func (k *checker) caFile(key, name string) {
	if name == "" || !k.readable(key, name) {
		return
	}
	if data, err := readFile(name); err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
		k.refuse(key, "has no certificate as PEM in it")
	}
}

// readable refuses a file that cannot be read. Its name is not repeated: it may
// be the secret itself by mistake.
func (k *checker) readable(key, name string) bool {
	file, err := os.Open(name) //nolint:gosec // the path is the operator's
	if err == nil {
		defer file.Close() //nolint:errcheck // nothing was written
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a file")
		}
	}
	if err != nil {
		k.refuse(key, "names a file that cannot be read: %v", withoutPath(err))
	}
	return err == nil
}

// withoutPath is an error of a file without its name.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// secretFile refuses a file without a secret, unless it is not set.
func (k *checker) secretFile(key, name string) {
	if name != "" && k.readable(key, name) {
		_, err := ReadSecret(name)
		k.refuseErr(key, err)
	}
}

// ReadSecret reads a secret from its file, without the line end that most
// editors add.
func ReadSecret(name string) ([]byte, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("names a file that cannot be read: %w", withoutPath(err))
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("names a file with %d bytes in it: a secret has %d to %d, as openssl rand -hex 32 prints it", len(secret), minSecret, maxSecret)
	}
	return []byte(secret), nil
}

func (k *checker) forwardAuth() {
	f := &k.ForwardAuth
	if k.Server.GRPC != "" {
		k.refuse("server.grpc", "is not supported by this version: leave it empty")
	}
	if s := f.DenyStatus; s != 401 && s != 403 && s != 429 {
		k.refuse("forward-auth.deny-status", "must be 401, 403 or 429, not %d", s)
	}
	if f.Enabled {
		for _, h := range []struct{ key, name string }{
			{"deny-header", f.DenyHeader}, {"method-header", f.MethodHeader}, {"uri-header", f.URIHeader}, {"host-header", f.HostHeader},
		} {
			k.header("forward-auth."+h.key, h.name)
		}
	}
	for _, h := range []struct{ key, name string }{{"user-header", f.UserHeader}, {"api-key-header", f.APIKeyHeader}} {
		if h.name != "" {
			k.header("forward-auth."+h.key, h.name)
		}
	}
}

// header refuses what is not the name of a header.
func (k *checker) header(key, name string) {
	if !isHeaderName(name) {
		k.refuse(key, "must be the name of a header, such as X-Forwarded-Host")
	}
}

// isHeaderName reports whether a string can be the name of a header.
func isHeaderName(name string) bool { return len(name) <= 64 && syntax.IsToken(name) }
