// Package accesstest has a small issuer of OpenID Connect tokens for tests: a
// real server with a discovery document and keys, and tokens of every kind that
// should not be accepted.
package accesstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Audience is the default audience of tokens.
const Audience = "fluxgate"

// Issuer issues tokens. It listens on this machine until its test ends.
type Issuer struct {
	// URL is its address and its name.
	URL string

	t      testing.TB
	server *httptest.Server
	asked  atomic.Int64
	away   atomic.Bool

	mu        sync.Mutex
	keys      []jose.JSONWebKey // private ones; only the public keys are published
	rotations int
}

// NewIssuer starts an issuer.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t}
	i.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.publish)
	i.server = httptest.NewServer(mux)
	i.URL = i.server.URL
	t.Cleanup(i.server.Close)
	return i
}

// Close stops the issuer before its test ends.
func (i *Issuer) Close() { i.server.Close() }

// Away makes the issuer answer with errors, or normally again.
func (i *Issuer) Away(away bool) { i.away.Store(away) }

// Asked returns how many requests it received.
func (i *Issuer) Asked() int { return int(i.asked.Load()) }

// Rotate replaces the keys. Older tokens are invalid then.
func (i *Issuer) Rotate() {
	i.t.Helper()
	byRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	byCurve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rotations++
	i.keys = []jose.JSONWebKey{
		{Key: byRSA, KeyID: fmt.Sprintf("rsa-%d", i.rotations), Algorithm: string(jose.RS256), Use: "sig"},
		{Key: byCurve, KeyID: fmt.Sprintf("curve-%d", i.rotations), Algorithm: string(jose.ES256), Use: "sig"},
	}
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.asked.Add(1)
	if i.away.Load() {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	answer(w, map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
	})
}

func (i *Issuer) publish(w http.ResponseWriter, _ *http.Request) {
	if i.away.Load() {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, key := range i.keys {
		set.Keys = append(set.Keys, key.Public())
	}
	answer(w, set)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller may have gone
}

// Token returns a valid token for an hour, by default of the user ada. Nil
// claims are left out.
func (i *Issuer) Token(claims map[string]any) string { return i.Signed(jose.RS256, claims) }

// Signed returns a token that is signed with RS256 or ES256.
func (i *Issuer) Signed(algorithm jose.SignatureAlgorithm, claims map[string]any) string {
	i.t.Helper()
	return i.sign(algorithm, i.key(algorithm), claims)
}

// Expired returns an expired token.
func (i *Issuer) Expired(claims map[string]any) string {
	return i.Token(merged(claims, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}))
}

// Forged returns a token that names the issuer's key and is signed by another.
func (i *Issuer) Forged(claims map[string]any) string {
	i.t.Helper()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return i.sign(jose.ES256, jose.JSONWebKey{Key: other, KeyID: i.key(jose.ES256).KeyID}, claims)
}

// UnknownKey returns a token that is signed by a key that the issuer does not
// have, with this id. An empty id is left out.
func (i *Issuer) UnknownKey(id string, claims map[string]any) string {
	return i.sign(jose.ES256, jose.JSONWebKey{Key: stranger(), KeyID: id}, claims)
}

var stranger = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
})

// Unsigned returns a token with the algorithm none.
func (i *Issuer) Unsigned(claims map[string]any) string {
	i.t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(i.payload(claims)) + "."
}

// Symmetric returns tokens that are signed with HS256 and the issuer's public
// key, in every form that a careless verifier may accept.
func (i *Issuer) Symmetric(claims map[string]any) []string {
	i.t.Helper()
	private := i.key(jose.RS256)
	public := private.Public()
	der, err := x509.MarshalPKIXPublicKey(public.Key.(crypto.PublicKey))
	if err != nil {
		i.t.Fatal(err)
	}
	jwk, err := public.MarshalJSON()
	if err != nil {
		i.t.Fatal(err)
	}
	var all []string
	for _, secret := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), jwk} {
		all = append(all, i.sign(jose.HS256, jose.JSONWebKey{Key: secret, KeyID: private.KeyID}, claims))
	}
	return all
}

func (i *Issuer) key(algorithm jose.SignatureAlgorithm) jose.JSONWebKey {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, key := range i.keys {
		if key.Algorithm == string(algorithm) {
			return key
		}
	}
	i.t.Fatalf("the issuer does not sign with %s", algorithm)
	return jose.JSONWebKey{}
}

func (i *Issuer) sign(algorithm jose.SignatureAlgorithm, key jose.JSONWebKey, claims map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		i.t.Fatal(err)
	}
	jws, err := signer.Sign(i.payload(claims))
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

func (i *Issuer) payload(claims map[string]any) []byte {
	i.t.Helper()
	now := time.Now()
	all := merged(map[string]any{"iss": i.URL, "aud": Audience, "sub": "ada", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}, claims)
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// merged returns the entries of both maps. Those of over take precedence.
func merged(below, over map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, below)
	maps.Copy(all, over)
	return all
}
