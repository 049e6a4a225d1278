package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/server/config"
)

// certificates are the server's own certificate and the authorities of client
// certificates. Changed files are loaded while it runs; invalid ones have no
// effect.
type certificates struct {
	certFile, keyFile, clientCAFile string

	mu      sync.Mutex                             // held while the files are read
	loaded  [][]byte                               // the content of the files
	current atomic.Pointer[map[string]*tls.Config] // by protocol
}

// loadCertificates loads the files that a configuration names.
func loadCertificates(c *config.TLS) (*certificates, error) {
	loaded := &certificates{certFile: c.CertFile, keyFile: c.KeyFile, clientCAFile: c.ClientCAFile}
	err := loaded.load()
	return loaded, err
}

// watch loads changed files until ctx ends.
func (c *certificates) watch(ctx context.Context, interval time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		_ = background.Sleep(ctx, interval)
		if err := c.load(); err != nil && ctx.Err() == nil {
			log.Error("cannot load the new certificate: the old one stays in use", "error", err)
		}
	}
}

// load loads the files if they have changed. Without TLS it does nothing.
func (c *certificates) load() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var files [][]byte
	for _, name := range []string{c.certFile, c.keyFile, c.clientCAFile} {
		if name == "" {
			files = append(files, nil)
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // the files that the configuration names
		if err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		files = append(files, text)
	}
	if slices.EqualFunc(files, c.loaded, bytes.Equal) {
		return nil
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return fmt.Errorf("reading %s and its key: %w", c.certFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.clientCAFile != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(files[2]) {
			return errors.New("reading " + c.clientCAFile + ": it contains no PEM certificate")
		}
	}
	c.loaded = files
	configs := map[string]*tls.Config{http1: config, http2: config.Clone()}
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
