package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// certificates are the server's own, and those it accepts. New ones are taken
// while it runs; bad ones change nothing.
type certificates struct {
	certFile, keyFile, clientCAFile string

	mu      sync.Mutex // held while they are read
	seen    [][]byte   // what the files held
	current atomic.Pointer[tls.Config]
}

// buildCertificates reads the certificates, if TLS is configured, and follows
// their files.
func (a *App) buildCertificates(ctx context.Context) error {
	c := &a.config.Server.TLS
	if c.CertFile == "" {
		return nil
	}
	a.certs = &certificates{certFile: c.CertFile, keyFile: c.KeyFile, clientCAFile: c.ClientCAFile}
	if err := a.certs.load(); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for life.Err() == nil {
			pause(life, c.ReloadInterval)
			if err := a.certs.load(); err != nil && life.Err() == nil {
				a.log.Error("the new certificate is not used", "error", err)
			}
		}
	}()
	a.onClose(func() error { end(); <-done; return nil })
	return nil
}

// load reads the files, if they have changed. Without TLS it does nothing.
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
	if slices.EqualFunc(files, c.seen, bytes.Equal) {
		return nil
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return fmt.Errorf("reading %s and its key: %w", c.certFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCAFile != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(files[2]) {
			return errors.New("reading " + c.clientCAFile + ": there is no certificate in it")
		}
	}
	c.seen = files
	c.current.Store(config)
	return nil
}

// listen answers with the certificate that is current then.
func (c *certificates) listen(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	})
}

// expires is when the certificate does.
func (c *certificates) expires() time.Time {
	if c == nil {
		return time.Time{}
	}
	leaf := c.current.Load().Certificates[0].Leaf
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotAfter
}
