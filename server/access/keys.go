package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// A token that is signed by a key that is not known makes the server ask
	// its issuer, and everyone can send one: it asks a few times at once, and
	// then only now and then.
	askTimeout = 5 * time.Second
	askEvery   = 12 * time.Second
	askBurst   = 3
	// Keys are asked for anew after a while, since one that the issuer has
	// withdrawn signs tokens that are no good, and serve on while it is away,
	// but not for ever.
	keysFresh = 10 * time.Minute
	keysGood  = time.Hour
	goodWait  = time.Second // for fresh keys, with others that are good

	maxKeys     = 64
	maxDocument = 512 << 10 // of what an issuer says, in bytes
)

// keys are those that an issuer signs with.
type keys struct {
	config *config.OIDC
	log    *slog.Logger
	now    func() time.Time
	most   time.Duration // that one question takes
	client atomic.Pointer[http.Client]
	known  atomic.Pointer[keySet]

	asking singleflight.Group // its call alone uses what follows
	due    time.Time          // when the next question is, if they come evenly
	failed error              // of the last question
}

// keySet is what an issuer has said.
type keySet struct {
	all []jose.JSONWebKey
	at  time.Time
}

// errTooOften is why an issuer that answers is not asked again yet.
var errTooOften = errors.New("the issuer was asked a moment ago")

func newKeys(c *config.OIDC, log *slog.Logger) *keys {
	return &keys{config: c, log: log, now: time.Now, most: askTimeout}
}

// loadCA reads who vouches for the issuer.
func (k *keys) loadCA() error {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if k.config.CAFile != "" {
		text, err := os.ReadFile(k.config.CAFile)
		if err != nil {
			return fmt.Errorf("reading who vouches for the issuer: %w", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(text) {
			return errors.New("reading who vouches for the issuer: there is no certificate in the file")
		}
	}
	k.client.Store(&http.Client{
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		}},
		// An issuer is where it says that it is.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return nil
}

// verify checks a signature and returns what was signed.
func (k *keys) verify(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, error) {
	set, err := k.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	payload, known := set.verify(jws)
	if payload != nil {
		return payload, nil
	}
	if known {
		return nil, badToken("has a signature that is wrong")
	}
	// Issuers replace their keys: it may be a new one.
	switch set, err = k.ask(ctx); {
	case errors.Is(err, errTooOften):
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	default:
		if payload, _ = set.verify(jws); payload != nil {
			return payload, nil
		}
	}
	return nil, badToken("is not signed by a key of the issuer")
}

// verify is what was signed, nil if none of the keys has signed it. It also
// reports whether the key is there that the token says it is signed by.
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

// current are keys that are fresh, or good at least.
func (k *keys) current(ctx context.Context) (*keySet, error) {
	set := k.known.Load()
	var age time.Duration
	if set != nil {
		if age = k.now().Sub(set.at); age < keysFresh {
			return set, nil
		}
	}
	if set == nil || age >= keysGood {
		return k.ask(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, goodWait)
	defer cancel()
	if fresh, err := k.ask(ctx); err == nil {
		return fresh, nil
	}
	return set, nil
}

// ask asks the issuer. Callers that come meanwhile share the answer.
func (k *keys) ask(ctx context.Context) (*keySet, error) {
	answer := k.asking.DoChan("", func() (any, error) { return k.askOnce(context.WithoutCancel(ctx)) })
	select {
	case a := <-answer:
		return a.Val.(*keySet), a.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askOnce asks the issuer unless it was asked too often.
func (k *keys) askOnce(ctx context.Context) (set *keySet, err error) {
	now := k.now()
	if err := k.tooOften(now); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // it would end the server: no request is below
			set, err = nil, fmt.Errorf("asking for the keys: panic: %v", p)
		}
		if k.failed = err; err != nil {
			k.log.Error("the issuer of OpenID Connect tokens cannot be asked for its keys", "error", err)
		}
	}()
	if set, err = k.fetch(ctx); err != nil {
		return nil, err
	}
	set.at = now
	k.known.Store(set)
	return set, nil
}

// tooOften is why the issuer is not asked now, nil if it is.
func (k *keys) tooOften(now time.Time) error {
	if first := now.Add(-(askBurst - 1) * askEvery); k.due.Before(first) {
		k.due = first
	}
	if !k.due.After(now) {
		k.due = k.due.Add(askEvery)
		return nil
	}
	if k.failed != nil {
		return k.failed
	}
	return errTooOften
}

// fetch asks where the keys are, and for the keys.
func (k *keys) fetch(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, k.most)
	defer cancel()
	client := k.client.Load()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), string(k.config.Issuer))
	if err != nil {
		return nil, fmt.Errorf("discovering the issuer: %w", short(err))
	}
	var metadata struct {
		Keys config.URI `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, errors.New("discovering the issuer: it does not say where its keys are")
	}
	if err := metadata.Keys.CheckSecure(); err != nil {
		return nil, fmt.Errorf("discovering the issuer: where its keys are %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(metadata.Keys), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for the keys: %w", short(err))
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for the keys: %w", short(err))
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for the keys: the issuer answers %d", res.StatusCode)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("asking for the keys: %w", short(err))
	}
	return readKeys(text)
}

// readKeys reads a JSON Web Key Set. Keys of a kind that is not known, and those
// that are not for signatures, are left out.
func readKeys(text []byte) (*keySet, error) {
	var listed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, errors.New("reading the keys: they are not a JSON Web Key Set")
	}
	set := new(keySet)
	for _, raw := range listed.Keys[:min(len(listed.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			set.all = append(set.all, key)
		}
	}
	if len(set.all) == 0 {
		return nil, errors.New("reading the keys: there is none that could sign a token")
	}
	return set, nil
}

// short is an error without most of what an issuer may have said.
func short(err error) error {
	const most = 200
	text := err.Error()
	if len(text) <= most {
		return err
	}
	return fmt.Errorf("%.*s…", most, text)
}

// bounded is a transport whose answers end.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxDocument)
	}
	return res, err
}
