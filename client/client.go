package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/internal/wire"
)

// Client decides by asking a server. It is safe for use by any number of
// goroutines.
type Client struct {
	config    Config
	transport *http.Transport
	check     *url.URL
	settle    *url.URL
	travels   func(header string) bool
	// authorize adds the token, and hide takes it out of a text. They are
	// functions so that nothing that prints a client prints the token.
	authorize func(http.Header)
	hide      func(string) string
}

// New makes a client of the server at a URL, such as
// http://127.0.0.1:8080. It does not connect: that is for the first request.
func New(address string, config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	server, err := endpoint(address)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &Client{
		config: config, transport: newTransport(&config), travels: headerFilter(config.Headers),
		check: at(server, "/v1/check"), settle: at(server, "/v1/settle"), authorize: func(http.Header) {}, hide: func(s string) string { return s },
	}
	if token := string(config.Token); token != "" {
		bearer := []string{"Bearer " + token}
		c.authorize = func(h http.Header) { h["Authorization"] = bearer }
		c.hide = func(s string) string { return strings.ReplaceAll(s, token, secret.Hidden) }
		c.config.Token = nil
	}
	return c, nil
}

// at is a path of the server, below the one that its address may have.
func at(server *url.URL, path string) *url.URL {
	u := *server
	u.Path += path
	return &u
}

// Close gives up the connections that nobody uses. Requests on their way are
// answered.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Check decides a request, as [fluxgate.Engine.Check] does. If ctx ends before
// there is a decision it returns the error of ctx.
func (c *Client) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	if err := ctx.Err(); err != nil {
		return fluxgate.Decision{}, err
	}
	if req.Cost < 0 {
		return fluxgate.Decision{}, fluxgate.ErrCost
	}
	d, err := c.ask(ctx, req)
	if err == nil {
		return d, nil
	}
	if end := ctx.Err(); end != nil {
		return fluxgate.Decision{}, end
	}
	err = fmt.Errorf("asking the server about a request: %w", err)
	if errors.Is(err, ErrUndecided) {
		return fluxgate.Decision{}, err
	}
	c.config.Failed(ctx, err)
	return c.standIn(ctx, req)
}

func (c *Client) ask(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	total := c.config.Timeout + c.config.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		total = min(total, time.Until(deadline))
	}
	// Half of what is not for waiting is left for the way there and back.
	patience := max(time.Millisecond, total-min(total, c.config.Timeout)/2)
	body, err := json.Marshal(c.describe(req, patience)) //nolint:gosec // the server has to know the API key
	if err != nil {
		return fluxgate.Decision{}, fmt.Errorf("%w: writing it down: %w", ErrUndecided, err)
	}
	if len(body) > maxQuestion {
		return fluxgate.Decision{}, fmt.Errorf("%w: what is known about it has %d bytes, at most %d can be sent", ErrUndecided, len(body), maxQuestion)
	}
	var answer wire.Decision
	if err := c.post(ctx, c.check, total, body, &answer); err != nil {
		return fluxgate.Decision{}, err
	}
	d, err := answer.Told()
	if err != nil {
		return fluxgate.Decision{}, fmt.Errorf("reading the answer: %w", err)
	}
	return d, nil
}

// describe is a request as it travels.
func (c *Client) describe(req *fluxgate.Request, patience time.Duration) *wire.Request {
	some := *req
	if len(req.Headers) > 0 {
		some.Headers = make(map[string][]string, len(req.Headers))
		for name, values := range req.Headers {
			if c.travels(name) {
				some.Headers[name] = values
			}
		}
	}
	w := wire.FromRequest(&some)
	w.SetTimeout(patience)
	return &w
}

// standIn decides what the server has not.
func (c *Client) standIn(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	if c.config.OnFailure != fluxgate.FailLocal {
		allowed := c.config.OnFailure == fluxgate.FailOpen
		return fluxgate.Decision{Allowed: allowed, Reason: fluxgate.ReasonStoreFailure, Degraded: true}, nil
	}
	d, err := c.config.Fallback.Check(ctx, req)
	if err != nil {
		return fluxgate.Decision{}, err
	}
	d.Degraded = true
	var bands []fluxgate.BandStatus
	for b := range d.Bands() {
		b.Source = fluxgate.FromFallback
		bands = append(bands, b)
	}
	if len(bands) > 0 {
		d.Source = fluxgate.FromFallback
	}
	return fluxgate.Told(d, bands, d.Receipt()), nil
}

// Settle corrects what was taken for a request to the cost that is known now,
// as [fluxgate.Engine.Settle] does: a receipt is settled once, and one that
// failed is not settled again, since it may have been. A receipt that neither
// a server nor the fallback made is an error that wraps fluxgate.ErrReceipt.
func (c *Client) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (fluxgate.Settlement, error) {
	switch {
	case receipt == nil:
		return fluxgate.Settlement{}, nil
	case actual < 0:
		return fluxgate.Settlement{}, fluxgate.ErrCost
	case receipt.Token == "" && c.config.Fallback != nil:
		return c.config.Fallback.Settle(ctx, receipt, actual)
	case receipt.Token == "":
		return fluxgate.Settlement{}, fmt.Errorf("%w: no server made the decision", fluxgate.ErrReceipt)
	case !receipt.Spend():
		return fluxgate.Settlement{}, fluxgate.ErrSettled
	}
	body, err := json.Marshal(wire.Settle{Receipt: receipt.Token, Actual: actual})
	if err != nil {
		return fluxgate.Settlement{}, fmt.Errorf("settling a receipt: %w", err)
	}
	var answer wire.Settlement
	if err := c.post(ctx, c.settle, c.config.Timeout, body, &answer); err != nil {
		if end := ctx.Err(); end != nil {
			return fluxgate.Settlement{}, end
		}
		err = fmt.Errorf("settling a receipt: %w", err)
		c.config.Failed(ctx, err)
		return fluxgate.Settlement{}, err
	}
	return fluxgate.Settlement{Returned: answer.Returned, Charged: answer.Charged}, nil
}
