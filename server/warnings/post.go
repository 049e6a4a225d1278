package warnings

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store"
)

// SignatureHeader is the header with the time and the signature of what is posted.
const SignatureHeader = "FluxGate-Signature"

// timeout bounds a post.
const timeout = 5 * time.Second

// newClient returns a client that follows no redirects: the operator chose where warnings go.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = maxPosts, 16<<10
	return &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// event is what is posted.
type event struct {
	Type string `json:"type"`
	admin.Warning
}

// post posts a warning. Without a URL there is nothing to do. Errors do not show the URL.
func (c *Courier) post(ctx context.Context, w *store.Warning) error {
	if c.config.URL == "" {
		return nil
	}
	body, err := json.Marshal(event{"limit.warning", admin.WarningOf(w, c.config.ShowKey(w.Key))})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid URL")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "FluxGate")
	if c.config.SecretFile != "" {
		secret, err := config.ReadSecret(c.config.SecretFile)
		if err != nil {
			return errors.New("cannot read events.secret-file")
		}
		request.Header.Set(SignatureHeader, sign(secret, time.Now(), body))
	}
	response, err := c.client.Do(request)
	if err != nil {
		return plain(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered with status %d", response.StatusCode)
	}
	return nil
}

// sign returns the time, and the HMAC-SHA256 of the time, a dot and the body.
func sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s", t, body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// plain returns an error of a client without what the receiver wrote, which may repeat the URL.
func plain(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("no answer in time")
	case errors.As(err, &network):
		err = network
	case errors.As(err, &certificate):
		err = certificate
	default:
		err = errors.New("no valid answer")
	}
	return fmt.Errorf("posting to the webhook: %w", err)
}
