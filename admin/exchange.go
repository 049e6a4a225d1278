package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// maxAnswer bounds the length of an answer. An explanation of ten thousand rules is
// smaller.
const maxAnswer = 2 * rules.MaxDocument

// ErrNotAPI is wrapped by errors about answers that do not come from an admin API.
var ErrNotAPI = errors.New("reading the answer: not an answer of the admin API; is this the address of server.admin?")

// FromHeader says that an answer of the admin API has the rules in effect on the server, because the rule
// source cannot be read: its value is FromMemory then. A [Client] takes it for an unavailable source.
const (
	FromHeader = "X-Fluxgate-From"
	FromMemory = "memory"
)

// call is one operation.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any // may be nil
}

// ruleSetPath returns a path below a rule set.
func ruleSetPath(id string, below ...string) string {
	path := "/v1/rule-sets/" + url.PathEscape(id)
	for _, part := range below {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// maxPause is the longest Retry-After that a call waits for.
const maxPause = 5 * time.Second

// fetch makes a call and returns its answer.
func fetch[T any](ctx context.Context, c *Client, op *call) (*T, error) {
	answer := new(T)
	if err := c.do(ctx, op, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// do makes a call and decodes the answer unless answer is nil. A refusal is a
// [*Problem]. A call is sent once, because a change may have been made even if its
// answer was lost. Only a rate-limited call is repeated after Retry-After, while
// there is time.
func (c *Client) do(ctx context.Context, op *call, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for {
		pause, err := c.once(ctx, op, answer)
		if pause <= 0 || pause > maxPause {
			return err
		}
		if background.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// once makes a call, and returns how long to wait if it was rate limited.
func (c *Client) once(ctx context.Context, op *call, answer any) (time.Duration, error) {
	request, err := c.request(ctx, op)
	if err != nil {
		return 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL
		}
		return 0, fmt.Errorf("calling the server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the answer: %w", err)
	case len(text) > maxAnswer:
		return 0, fmt.Errorf("reading the answer: more than %d bytes", maxAnswer)
	case response.StatusCode/100 != 2:
		p := refusal(response, text)
		if p.Status == http.StatusTooManyRequests || p.Kind == KindLimited {
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			return time.Duration(seconds) * time.Second, p
		}
		return 0, p
	case response.Header.Get(FromHeader) == FromMemory:
		return 0, NewProblem(http.StatusServiceUnavailable, KindUnavailable, "The rule source is unavailable: see the server's log.")
	case answer == nil:
		return 0, nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return 0, ErrNotAPI
	}
	return 0, nil
}

func (c *Client) request(ctx context.Context, op *call) (*http.Request, error) {
	to := c.base.JoinPath(op.path)
	to.RawQuery = op.query.Encode()
	var body io.Reader
	large := false
	if op.body != nil {
		text, err := json.Marshal(op.body)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		body, large = bytes.NewReader(text), len(text) > 64<<10
	}
	request, err := http.NewRequestWithContext(ctx, op.method, to.String(), body)
	if err != nil {
		return nil, fmt.Errorf("calling the server: %w", err)
	}
	maps.Copy(request.Header, op.header)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "fluxgate-admin")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if large {
		// A busy server refuses the call without reading the body. Without this
		// header the refusal could be lost.
		request.Header.Set("Expect", "100-continue")
	}
	c.authorize(request.Header)
	return request, nil
}

// refusal returns the error of an answer other than 2xx.
func refusal(response *http.Response, text []byte) *Problem {
	p := new(Problem)
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/problem+json" || json.Unmarshal(text, p) != nil {
		p = NewProblem(response.StatusCode, "", "")
		p.notAPI = true
		p.Detail = fmt.Sprintf("the server answers %d %s", p.Status, p.Title)
		if p.Status == http.StatusNotFound {
			p.Detail += "; is this the address of server.admin?"
		}
		return p
	}
	p.Status, p.Title, p.Detail = response.StatusCode, line(p.Title), line(p.Detail)
	if c := p.Conflict; c != nil {
		c.Author, c.Comment = line(c.Author), line(c.Comment)
	}
	for i := range p.Errors {
		p.Errors[i].Location, p.Errors[i].Message = line(p.Errors[i].Location), line(p.Errors[i].Message)
	}
	return p
}

// line returns a text of the server, made printable.
func line(text string) string { return printable.Line(text, 1_000) }
