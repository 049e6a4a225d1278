package access

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// Anyone can send a token with an unknown key, for which the keys of the
	// issuer are fetched: a few times at once, and then at intervals.
	fetchTimeout = 5 * time.Second
	fetchEvery   = 12 * time.Second
	fetchBurst   = 3
	// Keys are fetched again after a while, since the issuer may have revoked
	// one, and are used for an hour while the issuer is unavailable.
	keysFresh = 10 * time.Minute
	keysGood  = time.Hour
	goodWait  = time.Second // for fresh keys, with usable ones at hand

	maxKeys     = 64
	maxDocument = 512 << 10 // of an answer of the issuer, in bytes
)

// keys are the signing keys of an issuer.
type keys struct {
	config  *config.OIDC
	log     *slog.Logger
	now     func() time.Time
	timeout time.Duration // of one fetch
	client  atomic.Pointer[http.Client]
	known   atomic.Pointer[keySet]

	fetches singleflight.Group // its call alone uses the following
	due     time.Time          // of the next fetch, if they are evenly spaced
	failed  error              // of the last fetch
}

// keySet is the keys of an issuer at a time.
type keySet struct {
	all []jose.JSONWebKey
	at  time.Time
}

// errTooOften is why keys are not fetched again yet.
var errTooOften = errors.New("the keys were fetched a moment ago")

func newKeys(c *config.OIDC, log *slog.Logger) *keys {
	return &keys{config: c, log: log, now: time.Now, timeout: fetchTimeout}
}

// loadCA reads the certificate authorities of the issuer.
func (k *keys) loadCA() error {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if k.config.CAFile != "" {
		var err error
		if tlsConfig.RootCAs, err = config.ReadCA(k.config.CAFile); err != nil {
			return fmt.Errorf("reading server.auth.oidc.ca-file: %w", err)
		}
	}
	k.client.Store(&http.Client{
		Transport: boundedTransport{&http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		}},
		// An issuer does not redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return nil
}

// verify checks a signature and returns the payload.
func (k *keys) verify(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, error) {
	set, err := k.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIssuerUnavailable, err)
	}
	payload, known := set.verify(jws)
	if payload != nil {
		return payload, nil
	}
	if known {
		return nil, badToken("has an invalid signature")
	}
	// Issuers replace their keys: it may be a new one.
	switch set, err = k.fetch(ctx); {
	case errors.Is(err, errTooOften):
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrIssuerUnavailable, err)
	default:
		if payload, _ = set.verify(jws); payload != nil {
			return payload, nil
		}
	}
	return nil, badToken("is not signed by a key of the issuer")
}

// verify returns the payload, nil if none of the keys has signed it, and whether
// the set has the key that the token names.
func (s *keySet) verify(jws *jose.JSONWebSignature) (payload []byte, known bool) {
	id := jws.Signatures[0].Header.KeyID
	for i := range s.all {
		if id != "" && s.all[i].KeyID != id {
			continue
		}
		known = id != ""
		if payload, err := jws.Verify(&s.all[i]); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// current returns fresh keys, or usable ones.
func (k *keys) current(ctx context.Context) (*keySet, error) {
	set := k.known.Load()
	var age time.Duration
	if set != nil {
		if age = k.now().Sub(set.at); age < keysFresh {
			return set, nil
		}
	}
	if set == nil || age >= keysGood {
		return k.fetch(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, goodWait)
	defer cancel()
	if fresh, err := k.fetch(ctx); err == nil {
		return fresh, nil
	}
	return set, nil
}

// fetch fetches the keys. Concurrent callers share one fetch.
func (k *keys) fetch(ctx context.Context) (*keySet, error) {
	answer := k.fetches.DoChan("", func() (any, error) { return k.fetchOnce(context.WithoutCancel(ctx)) })
	select {
	case a := <-answer:
		return a.Val.(*keySet), a.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetchOnce fetches the keys unless that was done too often.
func (k *keys) fetchOnce(ctx context.Context) (set *keySet, err error) {
	now := k.now()
	if err := k.tooOften(now); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // on a goroutine of its own: it would end the server
			set, err = nil, fmt.Errorf("fetching the keys: panic: %v", p)
		}
		if k.failed = err; err != nil {
			k.log.Error("cannot fetch the keys of the OIDC issuer", "error", err)
		}
	}()
	if set, err = k.download(ctx); err != nil {
		return nil, err
	}
	set.at = now
	k.known.Store(set)
	return set, nil
}

// tooOften returns why the keys are not fetched now, or nil.
func (k *keys) tooOften(now time.Time) error {
	if first := now.Add(-(fetchBurst - 1) * fetchEvery); k.due.Before(first) {
		k.due = first
	}
	if !k.due.After(now) {
		k.due = k.due.Add(fetchEvery)
		return nil
	}
	if k.failed != nil {
		return k.failed
	}
	return errTooOften
}

// download discovers the issuer and downloads its keys.
func (k *keys) download(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	client := k.client.Load()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), string(k.config.Issuer))
	if err != nil {
		return nil, fmt.Errorf("discovering the issuer: %w", bounded(err))
	}
	var metadata struct {
		Keys config.URI `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, errors.New("discovering the issuer: its configuration has no jwks_uri")
	}
	if err := metadata.Keys.CheckSecure(); err != nil {
		return nil, fmt.Errorf("discovering the issuer: jwks_uri %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(metadata.Keys), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", bounded(err))
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", bounded(err))
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching the keys: the issuer answers %d", res.StatusCode)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", bounded(err))
	}
	return readKeys(text)
}

// readKeys reads a JSON Web Key Set, without keys of an unknown kind or for other
// uses than signatures.
func readKeys(text []byte) (*keySet, error) {
	var listed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, errors.New("reading the keys: not a JSON Web Key Set")
	}
	set := new(keySet)
	for _, raw := range listed.Keys[:min(len(listed.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			set.all = append(set.all, key)
		}
	}
	if len(set.all) == 0 {
		return nil, errors.New("reading the keys: none of them can verify a signature")
	}
	return set, nil
}

// bounded returns an error with at most 200 characters of what an issuer sent.
func bounded(err error) error { return errors.New(printable.Line(err.Error(), 200)) }

// boundedTransport bounds the bodies of answers.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxDocument)
	}
	return res, err
}
