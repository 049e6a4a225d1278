package server

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/server/config"
)

// certificates are the server's own certificate and the authorities of client
// certificates. Changed files are loaded while it runs; invalid ones have no
// effect.
type certificates struct {
	*config.TLS
	current atomic.Pointer[map[string]*tls.Config] // by protocol
}

// loadCertificates loads the files that a configuration names.
func loadCertificates(c *config.TLS) (*certificates, error) {
	loaded := &certificates{TLS: c}
	err := loaded.load()
	return loaded, err
}

// load loads the files. Without TLS it does nothing.
func (c *certificates) load() error {
	if c == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return fmt.Errorf("reading %s and its key: %w", c.CertFile, err)
	}
	one := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.ClientCAFile != "" {
		one.ClientAuth = tls.RequireAndVerifyClientCert
		if one.ClientCAs, err = config.ReadCA(c.ClientCAFile); err != nil {
			return fmt.Errorf("reading the CA certificates of clients: %w", err)
		}
	}
	configs := map[string]*tls.Config{http1: one, http2: one.Clone()}
	for protocol, one := range configs {
		one.NextProtos = []string{protocol}
	}
	c.current.Store(&configs)
	return nil
}

// The protocols of the listeners, as TLS names them: gRPC needs the second.
const (
	http1 = "http/1.1"
	http2 = "h2"
)

// config returns settings that use the current certificate, for one protocol.
func (c *certificates) config(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{protocol},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return (*c.current.Load())[protocol], nil
		},
	}
}

// expires returns the expiry of the certificate.
func (c *certificates) expires() time.Time {
	return (*c.current.Load())[http1].Certificates[0].Leaf.NotAfter
}
