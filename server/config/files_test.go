package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/server/config"
)

// certificate makes a certificate and its key, as PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// Files that settings name must exist and hold what they should.
func TestCheck_Files(t *testing.T) {
	cert, key := certificate(t)
	_, otherKey := certificate(t)
	certFile, keyFile, otherKeyFile := write(t, "cert.pem", cert), write(t, "key.pem", key), write(t, "other.pem", otherKey)
	secretFile := write(t, "secret", "0123456789abcdef\n")
	tls := []string{"server.tls.cert-file=" + certFile, "server.tls.key-file=" + keyFile}
	tokens := "tokens:\n  - {name: ci, sha256: \"" + someHash + "\", roles: [check]}\n"
	for _, c := range []struct {
		name string
		set  []string
		says string // "" for nothing
	}{
		{"a pair", tls, ""},
		{"a pair and an authority, with an admin API for all", append(tls, "server.tls.client-ca-file="+certFile, "server.admin=:9090"), ""},
		{"an authority for another listener, with an admin API for all", append(tls, "server.tls.client-ca-file="+certFile, "server.admin=:9090", "server.tls.listeners=grpc"), "is not on loopback"},
		{"certificates for Redis", []string{"redis.uri=rediss://a", "redis.tls.ca-file=" + certFile, "redis.tls.cert-file=" + certFile, "redis.tls.key-file=" + keyFile}, ""},
		{"certificates for Redis without TLS", []string{"redis.tls.ca-file=" + certFile}, "redis.uri: must begin with rediss://"},
		{"certificates for xDS", []string{"rules.xds.server=a:1", "rules.xds.tls.enabled=true", "rules.xds.tls.ca-file=" + certFile, "rules.xds.tls.cert-file=" + certFile, "rules.xds.tls.key-file=" + keyFile}, ""},
		{"another key", append(tls, "server.tls.key-file="+otherKeyFile), "server.tls.cert-file: does not match server.tls.key-file: tls: private key does not match"},
		{"a key that is missing", append(tls, "server.tls.key-file=missing.pem"), "server.tls.key-file: names a file that cannot be read: no such file"},
		{"a folder", append(tls, "server.tls.key-file=testdata"), "server.tls.key-file: names a file that cannot be read: is a directory"},
		{"an authority that is a key", append(tls, "server.tls.client-ca-file="+keyFile), "server.tls.client-ca-file: contains no PEM certificate"},
		{"secrets", []string{"redis.key-secret-file=" + secretFile, "settle.receipt-secret-file=" + secretFile}, ""},
		{"a short secret", []string{"redis.key-secret-file=" + write(t, "short", "0123456789abcde\n")}, "redis.key-secret-file: names a file with 15 bytes"},
		{"an empty password", []string{"redis.password-file=" + write(t, "empty", "\n")}, "redis.password-file: names a file with 0 bytes"},
		{"two passwords", []string{"redis.uri=redis://:secret@redis", "redis.password-file=" + write(t, "one", "secret")}, "redis.password-file: is set, and redis.uri has a password"},
		{"a user without a password", []string{"redis.username-file=" + write(t, "user", "app")}, "redis.username-file: needs redis.password-file"},
		{"a missing secret", []string{"settle.receipt-secret-file=nowhere"}, "--set settle.receipt-secret-file: settle.receipt-secret-file: names a file that cannot be read: no such file"},
		{"a webhook with a secret", []string{"events.webhook=https://hooks.example.com/services/T0/x", "events.secret-file=" + secretFile}, ""},
		{"a secret without a webhook", []string{"events.secret-file=" + secretFile}, "events.secret-file: would never be used: set events.webhook"},
		{"a webhook without a scheme", []string{"events.webhook=hooks.example.com/services"}, "events.webhook: must be of the form http://host:port"},
		{"tokens, with an admin API for all", []string{"server.auth.tokens-file=" + write(t, "tokens.yaml", tokens), "server.admin=0.0.0.0:9090"}, ""},
		{"loopback", []string{"server.admin=[::1]:9090"}, ""},
		{"localhost", []string{"server.admin=localhost:9090"}, ""},
		{"no admin API", []string{"server.admin="}, ""},
		{"an admin API for all", []string{"server.admin=admin.example.com:9090"}, "is not on loopback"},
		{"a token without a name", []string{"server.auth.tokens-file=" + write(t, "t.yaml", "tokens: [{sha256: a}]\n")}, "t.yaml:1:10: tokens[0].name: must have"},
		{"a token that stands in both", []string{
			"server.auth.tokens-file=" + write(t, "both.yaml", tokens), "server.auth.tokens=[{name: ci, sha256: " + strings.Repeat("a", 64) + ", roles: [read]}]",
		}, "both.yaml:2:12: tokens[0].name: is already used by another entry"},
		{"a hash that stands twice", []string{
			"server.auth.tokens-file=" + write(t, "hash.yaml", tokens), "server.auth.tokens=[{name: me, sha256: " + strings.ToUpper(someHash) + ", roles: [read]}]",
		}, "hash.yaml:2:24: tokens[0].sha256: is already used by another entry"},
		{"another key in the file of tokens", []string{"server.auth.tokens-file=" + write(t, "k.yaml", "token: []\n")}, "k.yaml:1:1: token: is not a known key: did you mean tokens?"},
		{"a file of tokens with a list", []string{"server.auth.tokens-file=" + write(t, "l.yaml", "- {name: ci}\n")}, "l.yaml:1:1: must be a group of keys: tokens"},
		{"a rule set that cannot be in the file of tokens", []string{
			"server.auth.tokens-file=" + write(t, "r.yaml", strings.Replace(tokens, "[check]", "[check], rule-sets: [ok, not ok]", 1)),
		}, "r.yaml:2:124: tokens[0].rule-sets[1]: must be the id of a rule set"},
		{"certificates, with an admin API for all", append(tls, "server.tls.client-ca-file="+certFile, "server.admin=:9090",
			"server.auth.certificates=[{name: ops, subject: ops@example.com, roles: [write]}]"), ""},
		{"certificates without an authority", append(tls, "server.auth.certificates=[{name: ops, subject: ops, roles: [write]}]"), "server.auth.certificates: needs server.tls.client-ca-file"},
		{"an issuer, with an admin API for all", []string{
			"server.auth.oidc.issuer=https://login.example.com/realms/ops", "server.auth.oidc.audience=fluxgate", "server.admin=:9090", "server.auth.oidc.ca-file=" + certFile,
		}, ""},
		{"an issuer on this machine", []string{"server.auth.oidc.issuer=http://[::1]:8080/realms/ops", "server.auth.oidc.audience=fluxgate"}, ""},
		{"an issuer that others can speak for", []string{"server.auth.oidc.issuer=http://login.example.com", "server.auth.oidc.audience=a"}, "server.auth.oidc.issuer: must begin with https://"},
		{"an issuer whose authority is a key", []string{
			"server.auth.oidc.issuer=https://login.example.com", "server.auth.oidc.audience=a", "server.auth.oidc.ca-file=" + keyFile,
		}, "server.auth.oidc.ca-file: contains no PEM certificate"},
		{"an empty file of tokens", []string{"server.auth.tokens-file=" + write(t, "e.yaml", "")}, "e.yaml: must hold one document"},
	} {
		err := load(t, config.Sources{Set: c.set}).Check()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: Check says %v, want %q", c.name, err, c.says)
		}
	}
}

// Tokens of the configuration and of its file are accepted together.
func TestAllTokens(t *testing.T) {
	auth := config.Auth{
		Tokens:     []config.Token{{Name: "one", SHA256: config.Hash(strings.Repeat("a", 64)), Roles: []config.Role{config.RoleRead}}},
		TokensFile: write(t, "tokens.yaml", "tokens: [{name: two, sha256: \""+someHash+"\", roles: [check, write], rule-sets: [a, b]}]\n"),
	}
	all, err := auth.AllTokens()
	if err != nil || len(all) != 2 || all[0].Name != "one" || all[1].Name != "two" || all[1].Roles[1] != config.RoleWrite || string(all[1].SHA256) != someHash ||
		!slices.Equal(all[1].RuleSets, []string{"a", "b"}) {
		t.Errorf("%v, %v", all, err)
	}
	auth.TokensFile = "missing.yaml"
	if _, err := auth.AllTokens(); err == nil {
		t.Error("a file that is missing is no error")
	}
}

// A line end after a secret is not part of it.
func TestReadSecret_LineEnd(t *testing.T) {
	for _, end := range []string{"", "\n", "\r\n"} {
		secret, err := config.ReadSecret(write(t, "s", "0123456789abcdef"+end))
		if err != nil || string(secret) != "0123456789abcdef" {
			t.Errorf("%q, %v", secret, err)
		}
	}
}

// Settings that contradict each other are refused, but not those of a part that
// is disabled.
func TestCheck_Contradictions(t *testing.T) {
	for _, c := range []struct {
		set  []string
		says string
	}{
		{[]string{"redis.mode=sentinel"}, "redis.mode: sentinel needs a redis.uri that begins with redis-sentinel://"},
		{[]string{"redis.mode=cluster", "redis.uri=redis-sentinel://a/m"}, "redis.mode: cluster cannot be used with"},
		{[]string{"redis.cluster-nodes=a:1", "redis.uri=redis-sentinel://a/m"}, "redis.cluster-nodes: cannot be used with"},
		{[]string{"redis.mode=standalone", "redis.uri=redis://a,b"}, "redis.mode: standalone cannot be used with several hosts"},
		{[]string{"redis.uri=redis://a,b/3"}, "redis.uri: names several hosts and a database"},
		{[]string{"redis.cluster-nodes=a:1", "redis.uri=redis://a/3"}, "redis.uri: names a database"},
		{[]string{"redis.uri=redis-sentinel://a"}, "redis.uri: must end in the name of the master"},
		{[]string{"redis.uri=redis://a/x"}, "redis.uri: must have the number of a database"},
		{[]string{"redis.uri=redis://a?db=1"}, "redis.uri: has options"},
		{[]string{"redis.uri=redis://u:%zz@a"}, "redis.uri: has credentials that are not percent-encoded"},
		{[]string{"redis.uri=redis://u:p@a,redis://u:q@b"}, "redis.uri: has several hosts with different credentials"},
		{[]string{"ratelimit.attributes={tier: X Tier}"}, "ratelimit.attributes: tier: must be the name of a header"},
		{[]string{"ratelimit.attributes={a b: X-Tier}"}, "ratelimit.attributes: (a key): the name of an attribute has"},
		{[]string{"ratelimit.attributes={tier: X-Tier}", "forward-auth.enabled=false"}, "ratelimit.attributes: would never be used"},
		{[]string{"redis.uri=localhost:6379"}, "redis.uri: must begin with redis://"},
		{[]string{"mongo.uri=redis://a"}, "mongo.uri: must begin with mongodb://"},
		{[]string{"mongo.enabled=true"}, "mongo.uri: is required for rules in MongoDB"},
		{[]string{"rules.source=mongo"}, "mongo.uri: is required for rules in MongoDB"},
		{[]string{"mongo.uri=mongodb://a", "mongo.database=a.b"}, "mongo.database: is not a valid database name"},
		{[]string{"mongo.uri=mongodb://a", "mongo.collection=system.x"}, "mongo.collection: is not a valid collection name"},
		{[]string{"rules.source=file"}, "rules.source: file needs rules.file"},
		{[]string{"rules.source=envoy-files"}, "rules.source: envoy-files needs rules.envoy-files"},
		{[]string{"rules.source=file", "rules.file=x", "rules.envoy-files=y"}, "rules.envoy-files: is not used, since rules.source is file"},
		{[]string{"rules.file=x", "rules.envoy-files=y"}, "rules.envoy-files: is not used, since rules.source is file"},
		{[]string{"redis.cluster-nodes=a:x"}, "redis.cluster-nodes[0]: must be of the form host:port"},
		{[]string{"rules.envoy-files=x", "mongo.enabled=true"}, "rules.envoy-files: is set, and so is mongo.enabled"},
		{[]string{"rules.source=xds"}, "rules.source: xds needs rules.xds.server"},
		{[]string{"rules.file=x", "rules.xds.server=a:1"}, "rules.xds.server: is not used, since rules.source is file"},
		{[]string{"rules.xds.server=envoy-gateway"}, "rules.xds.server: must be of the form host:port"},
		{[]string{"rules.xds.server=http://envoy-gateway:1"}, "rules.xds.server: must be of the form host:port"},
		{[]string{"rules.xds.server=a:1", "rules.xds.tls.server-name=b"}, "rules.xds.tls.enabled: must be true"},
		{[]string{"rules.xds.server=a:1", "rules.xds.tls.enabled=true", "rules.xds.tls.key-file=x"}, "rules.xds.tls.key-file: needs rules.xds.tls.cert-file"},
		{[]string{"redis.tls.cert-file=x", "redis.uri=rediss://a"}, "redis.tls.cert-file: needs redis.tls.key-file"},
		{[]string{"rules.source=mongo", "mongo.enabled=false"}, "rules.source: mongo needs mongo.enabled"},
		{[]string{"rules.source=redis", "redis.enabled=false"}, "rules.source: redis needs redis.enabled"},
		{[]string{"ratelimit.client-ip-header=X-Real-IP"}, "ratelimit.client-ip-header: would never be used"},
		{[]string{"ratelimit.client-ip-header=forwarded", "ratelimit.trusted-proxies=10.0.0.1"}, "ratelimit.client-ip-header: Forwarded is not supported"},
		{[]string{"server.http="}, "server.http: must be of the form host:port"},
		{[]string{"reload.channel="}, "reload.channel: must not be empty"},
	} {
		if err := load(t, config.Sources{Set: c.set}).Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: Check says %v, want %q", c.set, err, c.says)
		}
	}
	// What is not used need not be right.
	off := load(t, config.Sources{Set: []string{"redis.enabled=false", "redis.uri=", "mongo.enabled=false", "mongo.uri=", "rules.file=x", "reload.strategy=POLLING"}})
	if err := off.Check(); err != nil {
		t.Error(err)
	}
}
