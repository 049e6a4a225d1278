package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Client decides requests by calling a server. It is safe for concurrent use.
type Client struct {
	config    Config
	transport *http.Transport
	check     *url.URL
	settle    *url.URL
	extend    *url.URL
	tokens    *sync.Mutex // guards those of receipts
	travels   func(header string) bool
	// authorize adds the token, and hide removes it from a text. They are
	// functions so that printing a client does not print the token.
	authorize func(http.Header)
	hide      func(string) string
}

var _ fluxgate.Limiter = (*Client)(nil)

// New returns a client of the server at a URL, such as http://127.0.0.1:8080. The
// first request connects.
func New(address string, config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	server, err := endpoint(address)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	c := &Client{
		config: config, transport: newTransport(&config), travels: headerFilter(config.Headers),
		check: at(server, "/v1/check"), settle: at(server, "/v1/settle"), extend: at(server, "/v1/extend"),
		tokens: new(sync.Mutex), authorize: func(http.Header) {}, hide: func(s string) string { return s },
	}
	if token := string(config.Token); token != "" {
		bearer := []string{"Bearer " + token}
		c.authorize = func(h http.Header) { h["Authorization"] = bearer }
		c.hide = func(s string) string { return strings.ReplaceAll(s, token, secret.Hidden) }
		c.config.Token = nil
	}
	return c, nil
}

// at returns the URL of a path, below the path of the server.
func at(server *url.URL, path string) *url.URL {
	u := *server
	u.Path += path
	return &u
}

// Close closes idle connections. Requests under way are still answered.
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
	if err := req.CheckCosts(); err != nil {
		return fluxgate.Decision{}, err
	}
	d, err := c.checkRemotely(ctx, req)
	if err == nil {
		return d, nil
	}
	if end := ctx.Err(); end != nil {
		return fluxgate.Decision{}, end
	}
	err = fmt.Errorf("checking a request: %w", err)
	if errors.Is(err, ErrUndecided) {
		return fluxgate.Decision{}, err
	}
	c.config.Failed(ctx, err)
	return c.applyFailureMode(ctx, req)
}

func (c *Client) checkRemotely(ctx context.Context, req *fluxgate.Request) (d fluxgate.Decision, err error) {
	total := c.config.Timeout + c.config.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		total = min(total, time.Until(deadline))
	}
	err = untilNotBusy(ctx, total, func(ctx context.Context, left time.Duration) error {
		d, err = c.checkOnce(ctx, req, left)
		return err
	})
	return d, err
}

// checkOnce decides a request whose caller waits so long.
func (c *Client) checkOnce(ctx context.Context, req *fluxgate.Request, left time.Duration) (fluxgate.Decision, error) {
	// Half of the timeout is left for the network.
	patience := max(time.Millisecond, left-min(left, c.config.Timeout)/2)
	body, err := json.Marshal(c.describe(req, patience)) //nolint:gosec // the server has to know the API key
	if err != nil {
		return fluxgate.Decision{}, fmt.Errorf("%w: encoding it: %w", ErrUndecided, err)
	}
	if len(body) > maxRequest {
		return fluxgate.Decision{}, fmt.Errorf("%w: it has %d bytes, at most %d can be sent", ErrUndecided, len(body), maxRequest)
	}
	var answer wire.Decision
	if err := c.exchange(ctx, c.check, body, &answer); err != nil {
		return fluxgate.Decision{}, err
	}
	d, err := answer.Decision()
	if err != nil {
		return fluxgate.Decision{}, fmt.Errorf("reading the answer: %w", err)
	}
	return d, nil
}

// describe returns a request as JSON.
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

// applyFailureMode decides a request that the server has not decided.
func (c *Client) applyFailureMode(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	if c.config.OnFailure != rules.FailLocal {
		allowed := c.config.OnFailure == rules.FailOpen
		return fluxgate.Decision{Allowed: allowed, Reason: fluxgate.ReasonStoreFailure, Degraded: true}, nil
	}
	d, err := c.config.Fallback.Check(ctx, req)
	if err != nil {
		return fluxgate.Decision{}, err
	}
	d.Degraded = true
	var bands []fluxgate.BandStatus
	for b := range d.Bands() {
		b.Source = store.FromFallback
		bands = append(bands, b)
	}
	if len(bands) > 0 {
		d.Source = store.FromFallback
	}
	return fluxgate.NewDecision(d, bands, d.Receipt()), nil
}

// Settle corrects the tokens taken for a request to its actual cost, as
// [fluxgate.Engine.Settle] does. A receipt is settled once: after a failure it may
// have been settled, and is not settled again. For a receipt that neither a server
// nor the fallback issued, the error wraps fluxgate.ErrReceipt.
func (c *Client) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	switch {
	case receipt == nil:
		return store.Settlement{}, nil
	case actual < 0:
		return store.Settlement{}, fmt.Errorf("%w: it cannot be negative", fluxgate.ErrCost)
	case actual > store.MaxCost:
		return store.Settlement{}, fmt.Errorf("%w: at most %d is possible", fluxgate.ErrCost, int64(store.MaxCost))
	case c.token(receipt) == "" && c.config.Fallback != nil:
		return c.config.Fallback.Settle(ctx, receipt, actual)
	}
	var answer store.Settlement
	err := c.settleOnce(ctx, receipt, wire.Settle{Actual: &actual}, &answer)
	return answer, err
}

// SettleUsage corrects the tokens taken for a request to its actual usage, as
// [fluxgate.Engine.SettleUsage] does. Otherwise it is [Client.Settle].
func (c *Client) SettleUsage(ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	if receipt == nil {
		return nil, nil
	}
	if err := usage.Check(); err != nil {
		return nil, err
	}
	if c.token(receipt) == "" && c.config.Fallback != nil {
		return c.config.Fallback.SettleUsage(ctx, receipt, usage)
	}
	var answer wire.Settlements
	err := c.settleOnce(ctx, receipt, wire.Settle{Usage: wire.FromUsage(usage)}, &answer)
	return answer.Measures, err
}

// settleOnce settles the receipt of a server.
func (c *Client) settleOnce(ctx context.Context, receipt *fluxgate.Receipt, asked wire.Settle, answer any) error {
	if asked.Receipt = c.token(receipt); asked.Receipt == "" {
		return fmt.Errorf("%w: no server made the decision", fluxgate.ErrReceipt)
	}
	if !receipt.Spend() {
		return fluxgate.ErrSettled
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return fmt.Errorf("settling a receipt: %w", err)
	}
	if err := c.post(ctx, c.settle, c.config.Timeout, body, answer); err != nil {
		if end := ctx.Err(); end != nil {
			return end
		}
		err = fmt.Errorf("settling a receipt: %w", err)
		c.config.Failed(ctx, err)
		return err
	}
	return nil
}

// Extend renews the slots that a receipt holds, as [fluxgate.Engine.Extend] does. It
// replaces the token of the receipt.
func (c *Client) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	switch {
	case receipt == nil:
		return fmt.Errorf("%w: it names no bucket", fluxgate.ErrReceipt)
	case c.token(receipt) == "" && c.config.Fallback != nil:
		return c.config.Fallback.Extend(ctx, receipt)
	case c.token(receipt) == "":
		return fmt.Errorf("%w: no server made the decision", fluxgate.ErrReceipt)
	}
	body, err := json.Marshal(wire.Extend{Receipt: c.token(receipt)})
	if err != nil {
		return fmt.Errorf("renewing a receipt: %w", err)
	}
	var answer wire.Extend
	var lost error
	err = c.post(ctx, c.extend, c.config.Timeout, body, &answer)
	var status *StatusError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusConflict && status.receipt == "":
		return fluxgate.ErrNotHeld
	case status != nil && status.Status == http.StatusConflict:
		answer.Receipt, lost = status.receipt, fluxgate.ErrPartlyHeld
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		err = fmt.Errorf("renewing a receipt: %w", err)
		c.config.Failed(ctx, err)
		return err
	}
	c.tokens.Lock()
	defer c.tokens.Unlock()
	receipt.Token = answer.Receipt
	return lost
}

// token is the token of a receipt, which Extend changes.
func (c *Client) token(receipt *fluxgate.Receipt) string {
	c.tokens.Lock()
	defer c.tokens.Unlock()
	return receipt.Token
}
