package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// maxRequest bounds a body. A server reads as much of a body that is too
	// large, so that its answer arrives.
	maxRequest = 256 << 10
	// maxAnswer bounds an answer: 64 rules of 16 bands and their receipt are
	// smaller.
	maxAnswer = 1 << 20
)

// ErrUndecided is wrapped by the error of a request that the server cannot decide
// because of the request itself: it is invalid or too large, or its rule set does not
// exist.
var ErrUndecided = errors.New("the request cannot be decided")

// errTimeout is the cause of our own timeout.
var errTimeout = errors.New("no answer in time")

// StatusError is an answer that is neither a decision nor a settlement.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Detail is the server's description, if there is one.
	Detail string

	receipt string // of a problem that has one
	reason  fluxgate.Reason
	busy    bool // the server has done nothing, and asks to try again
}

// Error returns the status and the detail.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers %d", e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is reports whether the answer means ErrUndecided, fluxgate.ErrNoRuleSet or
// fluxgate.ErrSettled.
func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case http.StatusNotFound: // a proxy answers without the reason
		return e.reason == fluxgate.ReasonNoRuleSet && (target == ErrUndecided || target == fluxgate.ErrNoRuleSet)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return target == ErrUndecided
	case http.StatusConflict:
		return target == fluxgate.ErrSettled
	}
	return false
}

// post sends a body and reads the answer.
func (c *Client) post(ctx context.Context, to *url.URL, within time.Duration, body []byte, answer any) error {
	return untilNotBusy(ctx, within, func(ctx context.Context, _ time.Duration) error { return c.exchange(ctx, to, body, answer) })
}

// firstPause is about how long a client waits before it asks a busy server again. Each
// further pause is twice as long.
const firstPause = 20 * time.Millisecond

// untilNotBusy calls try with the time that is left, and again while the server is busy
// and the next attempt has as much time as the pause before it.
func untilNotBusy(ctx context.Context, within time.Duration, try func(ctx context.Context, left time.Duration) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for left, pause := within, firstPause; ; pause *= 2 {
		err := try(ctx, left)
		if err == nil {
			return nil
		}
		var refused *StatusError
		jittered := pause/2 + rand.N(pause) //nolint:gosec // not a secret
		if !errors.As(err, &refused) || !refused.busy || time.Until(deadline) <= 2*jittered {
			return err
		}
		if background.Sleep(ctx, jittered) != nil {
			return err
		}
		left = time.Until(deadline)
	}
}

// exchange sends a body at most once and reads the answer. Any answer but 200 is an error.
func (c *Client) exchange(ctx context.Context, to *url.URL, body []byte, answer any) error {
	response, err := c.send(ctx, to, body)
	if err != nil {
		return c.broken(reason(ctx, err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	text, err := readAnswer(response)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", c.broken(reason(ctx, err)))
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return errNotAnswer
	}
	return nil
}

var errNotAnswer = errors.New("reading the answer: not an answer of a fluxgate server")

// reason returns errTimeout if our own timeout was the cause.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
		return cause
	}
	return err
}

// brokenError is an error of the exchange. Its text may contain what the other
// side sent, even our token: it is cut, and the token is removed.
type brokenError struct {
	error
	text string
}

func (e *brokenError) Error() string { return e.text }
func (e *brokenError) Unwrap() error { return e.error }

func (c *Client) broken(err error) error {
	return &brokenError{err, line(c.hide(err.Error()))}
}

// send sends one request on one connection. It uses another connection only if
// no byte was sent on the first: see [connection].
func (c *Client) send(ctx context.Context, to *url.URL, body []byte) (*http.Response, error) {
	var use use
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: use.begin})
	for {
		request := (&http.Request{
			Method: http.MethodPost, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": jsonType, "Accept": jsonType, "User-Agent": userAgent},
			ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
			// Only used if no byte was sent: without an idempotency key net/http
			// does not send a POST again.
			GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		}).WithContext(traced)
		c.authorize(request.Header)
		response, err := c.transport.RoundTrip(request)
		if err == nil || ctx.Err() != nil || !use.unsent() {
			return response, err
		}
		use.conn = nil
	}
}

var (
	jsonType  = []string{"application/json"}
	userAgent = []string{"fluxgate-client"}
)

func readAnswer(response *http.Response) ([]byte, error) {
	if response.ContentLength > maxAnswer {
		return nil, errTooLong
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, errTooLong
	}
	return text, nil
}

var errTooLong = fmt.Errorf("more than %d bytes", maxAnswer)

// refusal returns the error of an answer other than 200. Redirects are not
// followed: a request is for this server only.
func refusal(response *http.Response) error {
	refused := &StatusError{Status: response.StatusCode}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/problem+json" {
		return refused
	}
	refused.busy = refused.Status == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != ""
	// A short answer is read to its end, so that the connection is reused.
	text, err := readAnswer(response)
	var problem struct {
		Detail, Receipt string
		Reason          fluxgate.Reason
	}
	if err == nil && json.Unmarshal(text, &problem) == nil {
		refused.Detail, refused.receipt, refused.reason = line(problem.Detail), problem.Receipt, problem.Reason
	}
	return refused
}

// line returns a text of the server or the network for a log.
func line(text string) string {
	text = printable.Line(text, len(text))
	if len(text) <= 2*maxPart {
		return text
	}
	// The reason may be at either end.
	return strings.ToValidUTF8(text[:maxPart]+" … "+text[len(text)-maxPart:], "")
}

// maxPart bounds each end of a text that is cut, in bytes.
const maxPart = 200
