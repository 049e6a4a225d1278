package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a certificate with a serial number, and its key.
func (a *authority) issue(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	own := newKey(t)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// Valid new certificates are used, invalid ones are ignored, and clients need a
// certificate of the configured CA.
func TestTLS_CertificateReload(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	replace := func(serial int64) {
		cert, key := ours.issue(t, serial)
		write(t, file("cert.pem"), string(cert))
		write(t, file("key.pem"), string(key))
	}
	replace(10)
	write(t, file("clients.pem"), string(ours.pem))
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 100),
		"server.tls.cert-file="+file("cert.pem"), "server.tls.key-file="+file("key.pem"), "server.tls.client-ca-file="+file("clients.pem"))

	// get connects anew and returns the serial number of the server.
	get := func(who *authority) (serial int64, err error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ours.pem)
		config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		if who != nil {
			cert, key := who.issue(t, 99)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.Addr("http")+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		if res.ProtoMajor != 1 {
			t.Errorf("it speaks %s", res.Proto)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	if serial, err := get(ours); err != nil || serial != 10 {
		t.Fatalf("%d, %v", serial, err)
	}
	for name, who := range map[string]*authority{"no certificate": nil, "another CA": others} {
		if _, err := get(who); err == nil {
			t.Errorf("%s got in", name)
		}
	}
	replace(11)
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if serial, err := get(ours); err != nil || serial != 11 {
		t.Errorf("after the renewal: %d, %v", serial, err)
	}
	write(t, file("key.pem"), "not a key")
	if err := r.Reload(t.Context()); err == nil {
		t.Error("a certificate without its key was taken")
	}
	if serial, err := get(ours); err != nil || serial != 11 {
		t.Errorf("after a bad renewal: %d, %v", serial, err)
	}
	if h := r.Health(t.Context()); h.TLS == nil || h.TLS.ExpiresAt.Before(time.Now()) {
		t.Errorf("health %+v", h.TLS)
	}
}
