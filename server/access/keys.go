package access

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/tlsfiles"
	"github.com/fluxgate/fluxgate/server/config"
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

	maxKeys     = 64
	maxDocument = 512 << 10 // of an answer of the issuer, in bytes
)

// keys are the signing keys of an issuer.
type keys struct {
	issuer  string
	log     *slog.Logger
	now     func() time.Time
	timeout time.Duration // of one fetch
	client  atomic.Pointer[http.Client]
	known   atomic.Pointer[keySet]

	mu       sync.Mutex
	fetching *keyFetch // nil while none is under way
	due      time.Time // of the next fetch, if they are evenly spaced
}

// keyFetch is a fetch of the keys, which callers share.
type keyFetch struct {
	done  chan struct{}
	fresh *keySet
	err   error
}

// keySet is the keys of an issuer at a time. A nil one has none.
type keySet struct {
	oidc.StaticKeySet
	at time.Time
}

// errTooOften is why keys are not fetched again yet.
var errTooOften = errors.New("the keys were fetched a moment ago")

// loadCA reads the certificate authorities of the issuer.
func (k *keys) loadCA(file string) error {
	tlsConfig, err := tlsfiles.Client(file, "", "")
	if err != nil {
		return fmt.Errorf("server.auth.oidc.ca-file: %w", err)
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

// verify checks the signature of a token and returns the payload.
func (k *keys) verify(ctx context.Context, token string) ([]byte, error) {
	set, now := k.known.Load(), k.now()
	payload := set.verify(ctx, token, now)
	if payload != nil && now.Sub(set.at) < keysFresh {
		return payload, nil
	}
	// The key may be new or revoked.
	fresh, err := k.refresh(ctx, set, payload == nil)
	switch {
	case err == nil:
		payload = fresh.verify(ctx, token, now)
	case payload == nil && (!errors.Is(err, errTooOften) || !set.good(now)):
		return nil, fmt.Errorf("%w: %w", ErrIssuerUnavailable, err)
	}
	if payload == nil {
		return nil, badToken("is not signed by a key of the issuer")
	}
	return payload, nil
}

// good reports whether the keys are not too old to be used.
func (s *keySet) good(now time.Time) bool { return s != nil && now.Sub(s.at) < keysGood }

// verify returns the payload of a token, nil if none of the keys has signed it.
func (s *keySet) verify(ctx context.Context, token string, now time.Time) []byte {
	if !s.good(now) {
		return nil
	}
	payload, _ := s.VerifySignature(ctx, token)
	return payload
}

// refresh returns keys that were fetched after the known ones, unless that was tried
// too often. It waits until ctx ends; the fetch goes on. If wait is not set it returns at
// once while another call fetches them.
func (k *keys) refresh(ctx context.Context, known *keySet, wait bool) (*keySet, error) {
	k.mu.Lock()
	f, now := k.fetching, k.now()
	switch fresh := k.known.Load(); {
	case fresh != known:
		k.mu.Unlock()
		return fresh, nil
	case f == nil && k.mayFetch(now):
		f = &keyFetch{done: make(chan struct{})}
		k.fetching = f
		go k.run(context.WithoutCancel(ctx), f, now)
	case f == nil || !wait:
		k.mu.Unlock()
		return nil, errTooOften
	}
	k.mu.Unlock()
	select {
	case <-f.done:
		return f.fresh, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// mayFetch counts a fetch, unless there were too many. The lock is held.
func (k *keys) mayFetch(now time.Time) bool {
	if first := now.Add(-(fetchBurst - 1) * fetchEvery); k.due.Before(first) {
		k.due = first
	}
	if k.due.After(now) {
		return false
	}
	k.due = k.due.Add(fetchEvery)
	return true
}

// run fetches the keys that callers wait for.
func (k *keys) run(ctx context.Context, f *keyFetch, now time.Time) {
	public, err := k.fetch(ctx)
	if err != nil {
		f.err = errors.New(printable.Line(err.Error(), 200)) // it may have the whole answer of the issuer
		k.log.Error("cannot fetch the keys of the OIDC issuer: tokens are verified with its last keys for at most an hour", "error", f.err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		f.fresh = &keySet{oidc.StaticKeySet{PublicKeys: public}, now}
		k.known.Store(f.fresh)
	}
	k.fetching = nil
	close(f.done)
}

// fetch discovers the issuer and fetches its keys. A panic is an error: no caller could recover
// it.
func (k *keys) fetch(ctx context.Context) (_ []crypto.PublicKey, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fetching the keys: panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	client := k.client.Load()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), k.issuer)
	if err != nil {
		return nil, fmt.Errorf("discovering the issuer: %w", err)
	}
	var metadata struct {
		Keys config.URI `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, fmt.Errorf("discovering the issuer: %w", err)
	}
	if err := metadata.Keys.CheckSecure(); err != nil {
		return nil, fmt.Errorf("discovering the issuer: jwks_uri %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(metadata.Keys), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching the keys: the issuer answers %d", res.StatusCode)
	}
	return readKeys(json.NewDecoder(res.Body))
}

// readKeys reads a JSON Web Key Set, without keys of an unknown kind or for other
// uses than signatures, which go-oidc would accept.
func readKeys(document *json.Decoder) ([]crypto.PublicKey, error) {
	var listed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := document.Decode(&listed); err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	var all []crypto.PublicKey
	for _, raw := range listed.Keys[:min(len(listed.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			all = append(all, key.Key)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("reading the keys: none of them can verify a signature")
	}
	return all, nil
}

// boundedTransport bounds the bodies of answers.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxDocument)
	}
	return res, err
}
