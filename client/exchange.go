package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// maxQuestion bounds what is sent. A server reads as much of a body that
	// is too large for it, so that its answer arrives.
	maxQuestion = 256 << 10
	// maxAnswer bounds what is read: 64 rules of 16 bands and their receipt
	// are less.
	maxAnswer = 1 << 20
)

// ErrUndecided is wrapped by the error of a request that the server cannot
// decide though nothing else is wrong: too large, say, or with more rules than
// can apply to one.
var ErrUndecided = errors.New("the request cannot be decided")

// errTimeout is what the end of our own time is called.
var errTimeout = errors.New("no answer in time")

// StatusError is an answer that is neither a decision nor a settlement.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Detail is what the server says about it, if it does.
	Detail string
}

// Error is the status, and what the server says.
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

// Is says which of our errors a status means.
func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return target == ErrUndecided
	case http.StatusConflict:
		return target == fluxgate.ErrSettled
	}
	return false
}

// post sends a body at most once and reads the answer.
func (c *Client) post(ctx context.Context, to *url.URL, within time.Duration, body []byte, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errTimeout)
	defer cancel()
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
		return errors.New("reading the answer: it is not what a server answers")
	}
	return nil
}

// reason is our own word where it was our time that ended.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
		return cause
	}
	return err
}

// brokenError is what went wrong on the way. Its text may have what the other
// side has sent, so it is cut, and without the token: the other side may send
// back what it gets.
type brokenError struct {
	error
	text string
}

func (e *brokenError) Error() string { return e.text }
func (e *brokenError) Unwrap() error { return e.error }

func (c *Client) broken(err error) error {
	return &brokenError{err, line(c.hide(err.Error()))}
}

// send is one request on one connection. It takes another connection only
// where nothing was sent on the first: see [connection].
func (c *Client) send(ctx context.Context, to *url.URL, body []byte) (*http.Response, error) {
	var use use
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: use.begin})
	for {
		request := (&http.Request{
			Method: http.MethodPost, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": jsonType, "Accept": jsonType, "User-Agent": userAgent},
			ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
			// Only used where nothing was sent: without an idempotency key
			// net/http does not send a POST again.
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

var errTooLong = fmt.Errorf("it has more than %d bytes", maxAnswer)

// refusal is the error of an answer that is not 200. A redirect is one: what
// is sent to a server is not meant for another.
func refusal(response *http.Response) error {
	refused := &StatusError{Status: response.StatusCode}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/problem+json" {
		return refused
	}
	// Short answers are read to their end, so that the connection is kept.
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	var problem struct {
		Detail string `json:"detail"`
	}
	if err == nil && json.Unmarshal(text, &problem) == nil {
		refused.Detail = line(problem.Detail)
	}
	return refused
}

// line is a text of the server or the network for a log.
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
