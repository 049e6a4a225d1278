package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue signs a certificate.
func (a *authority) issue(t testing.TB, template x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	raw, err := x509.CreateCertificate(rand.Reader, &template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// tlsServer answers with the identity of the caller.
type tlsServer struct {
	*httptest.Server
	ours *authority
}

// tlsFiles returns the settings of a server with a certificate of the authority
// that requires client certificates.
func (a *authority) tlsFiles(t testing.TB) []string {
	t.Helper()
	own := a.issue(t, x509.Certificate{DNSNames: []string{"localhost"}})
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, raw []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
	}
	return []string{
		"server.tls.cert-file=" + write(t, "cert.pem", encode("CERTIFICATE", own.Certificate[0])),
		"server.tls.key-file=" + write(t, "key.pem", encode("PRIVATE KEY", der)),
		"server.tls.client-ca-file=" + write(t, "ca.pem", encode("CERTIFICATE", a.cert.Raw)),
	}
}

func newTLSServer(t testing.TB, ours *authority, guard *access.Guard) *tlsServer {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := guard.Identify(r)
		_, _ = io.WriteString(w, outcome(who, err))
	}))
	server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		Certificates: []tls.Certificate{ours.issue(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})},
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshake errors
	server.StartTLS()
	t.Cleanup(server.Close)
	return &tlsServer{server, ours}
}

// identify connects with a certificate and returns the identity.
func (d *tlsServer) identify(t testing.TB, pair tls.Certificate, authorization string) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(d.ours.cert)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := client.Do(req)
	if err != nil {
		return "no connection"
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func uri(t testing.TB, text string) []*url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

// A certificate is identified by its names.
func TestCertificates_Subjects(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	guard := guardOf(t, append(ours.tlsFiles(t),
		"server.auth.tokens=[{name: ci, sha256: "+hashOf("secret")+", roles: [check]}]",
		"server.auth.certificates=[{name: workload, subject: spiffe://example.com/ops, roles: [write]}, {name: host, subject: ops.example.com, roles: [read]},"+
			"{name: mail, subject: ops@example.com, roles: [read]}, {name: old, subject: ops, roles: [read], rule-sets: [a]}, {name: ip, subject: 192.0.2.1, roles: [read]}]")...)
	door := newTLSServer(t, ours, guard)
	named := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	for _, c := range []struct {
		name     string
		by       *authority
		template x509.Certificate
		sent     string
		want     string
	}{
		{"a URI", ours, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops")}, "", "certificate:workload"},
		{"a DNS name", ours, x509.Certificate{DNSNames: []string{"other.example.com", "ops.example.com"}}, "", "certificate:host"},
		{"an email address", ours, x509.Certificate{EmailAddresses: []string{"ops@example.com"}}, "", "certificate:mail"},
		{"a common name alone", ours, x509.Certificate{Subject: named("ops")}, "", "certificate:old"},
		{"the first of several that match", ours, x509.Certificate{DNSNames: []string{"ops.example.com"}, URIs: uri(t, "spiffe://example.com/ops")}, "", "certificate:workload"},
		{"a common name beside another name", ours, x509.Certificate{Subject: named("ops"), DNSNames: []string{"guest.example.com"}}, "", "refused"},
		{"a common name beside an address", ours, x509.Certificate{Subject: named("ops"), IPAddresses: []net.IP{net.IPv4(192, 0, 2, 9)}}, "", "refused"},
		{"a common name that is a URI of another", ours, x509.Certificate{Subject: named("spiffe://example.com/ops"), DNSNames: []string{"guest.example.com"}}, "", "refused"},
		{"an address", ours, x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, "", "refused"},
		{"more than the name", ours, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops/guest")}, "", "refused"},
		{"less than the name", ours, x509.Certificate{URIs: uri(t, "spiffe://example.com/op")}, "", "refused"},
		{"a wildcard", ours, x509.Certificate{DNSNames: []string{"*.example.com"}}, "", "refused"},
		{"another case", ours, x509.Certificate{DNSNames: []string{"OPS.example.com"}}, "", "refused"},
		{"an organisation", ours, x509.Certificate{Subject: pkix.Name{Organization: []string{"ops"}}}, "", "refused"},
		{"another authority", others, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops")}, "", "no connection"},
		{"a token beside it", ours, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops")}, "Bearer secret", "token:ci"},
		{"a wrong token beside it", ours, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops")}, "Bearer wrong", "refused"},
		{"a token beside one that is not listed", ours, x509.Certificate{DNSNames: []string{"guest.example.com"}}, "Bearer secret", "token:ci"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := door.identify(t, c.by.issue(t, c.template), c.sent); got != c.want {
				t.Errorf("identified as %s, want %s", got, c.want)
			}
		})
	}
	pair := ours.issue(t, x509.Certificate{URIs: uri(t, "spiffe://example.com/ops")})
	guard.SetClock(func() time.Time { return time.Now().Add(2 * time.Hour) })
	if got := door.identify(t, pair, ""); got != "nobody" {
		t.Errorf("a certificate that has expired since: %s", got)
	}
}

// What is not verified is no certificate, whatever put it there.
func TestCertificates_Authority(t *testing.T) {
	ours := newAuthority(t)
	guard := guardOf(t, append(ours.tlsFiles(t), "server.auth.certificates=[{name: ops, subject: ops, roles: [write]}]")...)
	leaf, err := x509.ParseCertificate(ours.issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "ops"}}).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]*tls.ConnectionState{
		"no TLS": nil, "no chain": {PeerCertificates: []*x509.Certificate{leaf}}, "an empty chain": {PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{}}},
	} {
		r := with()
		r.TLS = state
		if who, err := guard.Identify(r); outcome(who, err) != "nobody" {
			t.Errorf("%s: %v, %v", name, who, err)
		}
	}
	w, r := httptest.NewRecorder(), with()
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	guard.Only(config.RoleRead, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("a good one: %d", w.Code)
	}
}

// With client authorities only, every verified certificate has all roles.
func TestCertificates_AuthorityOnly(t *testing.T) {
	ours := newAuthority(t)
	guard := guardOf(t, ours.tlsFiles(t)...)
	door := newTLSServer(t, ours, guard)
	for _, c := range []struct {
		template x509.Certificate
		want     string
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "ops"}}, "certificate:ops"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "ops"}, DNSNames: []string{"a.example"}, URIs: uri(t, "spiffe://example.com/ops")}, "certificate:spiffe://example.com/ops"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "two\nlines"}}, "certificate:sha256:"},
		{x509.Certificate{Subject: pkix.Name{CommonName: strings.Repeat("x", 250)}}, "certificate:sha256:"},
		{x509.Certificate{}, "certificate:sha256:"},
	} {
		got := door.identify(t, ours.issue(t, c.template), "")
		if got != c.want && (!strings.HasSuffix(c.want, "sha256:") || !strings.HasPrefix(got, c.want) || len(got) != len(c.want)+64) {
			t.Errorf("identified as %q, want %s", got, c.want)
		}
	}
}
