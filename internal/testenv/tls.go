package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates has an authority for one environment and a certificate signed by it for
// servers and clients. The files are removed with the environment.
type Certificates struct {
	CAPEM    []byte // the authority's certificate
	CAFile   string // the same, on disk
	CertFile string // a certificate for 127.0.0.1 and localhost
	KeyFile  string // its key

	pool *x509.CertPool
	pair tls.Certificate
}

// ClientConfig returns a client's configuration: it trusts the authority and has the
// certificate.
func (c *Certificates) ClientConfig() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      c.pool,
		Certificates: []tls.Certificate{c.pair},
	}
}

// NewCertificates creates an authority and a certificate for a test that starts its own
// server.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	c, err := newCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newCertificates creates an authority and a certificate in dir.
func newCertificates(dir string) (*Certificates, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the authority's key: %w", err)
	}
	// An hour ago, so that a clock change during the test does not invalidate it.
	from, to := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "FluxGate test authority"},
		NotBefore:             from,
		NotAfter:              to,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("create the authority: %w", err)
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the certificate's key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "FluxGate test"},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// Replicas and cluster nodes are clients of each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("create the certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate's key: %w", err)
	}

	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	c := &Certificates{
		CAPEM:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
		pool:     x509.NewCertPool(),
	}
	c.pool.AppendCertsFromPEM(c.CAPEM)
	if c.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	for name, data := range map[string][]byte{c.CAFile: c.CAPEM, c.CertFile: certPEM, c.KeyFile: keyPEM} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return nil, fmt.Errorf("write the certificates: %w", err)
		}
	}
	return c, nil
}

// tlsLines returns the lines of redis.conf that enable TLS on all ports.
func tlsLines(c *Certificates, mutual bool) []string {
	auth := "no"
	if mutual {
		auth = "yes"
	}
	return []string{
		"tls-cert-file " + c.CertFile,
		"tls-key-file " + c.KeyFile,
		"tls-ca-cert-file " + c.CAFile,
		"tls-auth-clients " + auth,
		"tls-replication yes",
	}
}
