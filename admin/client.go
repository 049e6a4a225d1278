package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// Secret is a string that logs and errors do not show.
type Secret = secret.Bytes

// ClientConfig configures a [Client]. Its zero value works with a server without
// authentication.
type ClientConfig struct {
	// Token is the bearer token of the client. Empty means none.
	Token Secret
	// TLS configures https://: the authorities, and a client certificate. Nil
	// means the authorities of the system.
	TLS *tls.Config
	// Timeout bounds one operation. 0 means 3 minutes: a server may take 2 for a
	// rule set of ten thousand rules.
	Timeout time.Duration
}

// Client is an operator over the admin API of a server. The author of its changes is
// the authenticated identity, whatever author a change names.
type Client struct {
	base    *url.URL
	http    *http.Client
	timeout time.Duration
	// authorize adds the token. It is a function so that printing a client does
	// not print the token.
	authorize func(http.Header)
}

var _ Operator = (*Client)(nil)

// NewClient returns a client of the admin API at a URL, such as
// http://127.0.0.1:9090. The first operation connects.
func NewClient(address string, config ClientConfig) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("creating a client: the address must be of the form http://127.0.0.1:9090")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("creating a client: the address must not have a user, a query or a fragment")
	}
	config.Timeout = cmp.Or(config.Timeout, 3*time.Minute)
	if config.Timeout < 0 {
		return nil, errors.New("creating a client: the timeout must not be negative")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = config.TLS, nil
	transport.MaxConnsPerHost, transport.IdleConnTimeout = 16, 30*time.Second
	transport.ExpectContinueTimeout = 10 * time.Second
	c := &Client{base: base, timeout: config.Timeout, authorize: func(http.Header) {}}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &http.Client{Transport: transport, CheckRedirect: noRedirect}
	if token := string(config.Token); token != "" {
		c.authorize = func(h http.Header) { h.Set("Authorization", "Bearer "+token) }
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Revisions implements [rules.Source].
func (c *Client) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	heads := make(map[string]rules.Head, len(ids))
	for _, id := range ids {
		last, err := c.History(ctx, id, 0, 1)
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			heads[id] = last[0].Head
		}
	}
	return heads, nil
}

// Load implements [rules.Source].
func (c *Client) Load(ctx context.Context, id string) (*rules.Version, error) {
	last, err := c.History(ctx, id, 0, 1)
	if err != nil {
		return nil, err
	}
	if len(last) == 0 || last[0].Deleted {
		return nil, fmt.Errorf("rule set %q: %w", id, rules.ErrNotFound)
	}
	return c.Version(ctx, id, last[0].Revision)
}

// named reports whether an id can be in a path. Other ids do not exist.
func named(id string) bool { return rules.ValidID(id) && id != "." && id != ".." }

// Version implements [rules.Editor].
func (c *Client) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if !named(id) || revision < 1 {
		return nil, fmt.Errorf("revision %d of rule set %q: %w", revision, id, rules.ErrNotFound)
	}
	var answer struct {
		rules.Entry
		RuleSet json.RawMessage `json:"ruleSet"`
	}
	op := call{method: http.MethodGet, path: ruleSetPath(id, "revisions", strconv.FormatInt(revision, 10))}
	if err := c.do(ctx, &op, &answer); err != nil {
		return nil, err
	}
	v := &rules.Version{Entry: answer.Entry}
	if v.Revision != revision || (len(answer.RuleSet) == 0) != v.Deleted {
		return nil, ErrNotAPI
	}
	if v.Deleted {
		return v, nil
	}
	var err error
	if v.RuleSet, err = rules.Parse(answer.RuleSet); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return v, nil
}

// List implements [rules.Editor]. For callers limited to some rule sets a page may
// be shorter than the limit and not the last one; the last one is empty.
func (c *Client) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	var answer Entries
	op := call{method: http.MethodGet, path: "/v1/rule-sets", query: url.Values{"limit": {strconv.Itoa(rules.PageSize(limit))}}}
	if after != "" {
		op.query.Set("after", after)
	}
	if err := c.do(ctx, &op, &answer); err != nil {
		return nil, err
	}
	if answer.RuleSets == nil {
		return nil, ErrNotAPI
	}
	return answer.RuleSets, nil
}

// History implements [rules.Editor].
func (c *Client) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	if !named(id) {
		return nil, nil
	}
	var answer Revisions
	query := url.Values{"limit": {strconv.Itoa(rules.PageSize(limit))}}
	if before > 0 {
		query.Set("before", strconv.FormatInt(before, 10))
	}
	err := c.do(ctx, &call{method: http.MethodGet, path: ruleSetPath(id, "revisions"), query: query}, &answer)
	if errors.Is(err, rules.ErrNotFound) {
		return nil, nil // it never existed
	}
	if err == nil && answer.Revisions == nil {
		err = ErrNotAPI
	}
	if err != nil {
		return nil, err
	}
	return answer.Revisions, nil
}

// Put implements [Operator].
func (c *Client) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	revision, err := c.change(ctx, http.MethodPut, ruleSetPath(set.ID()), set, change)
	var p *Problem
	if errors.As(err, &p) {
		p.about = set.ID()
	}
	return revision, err
}

// Delete implements [Operator].
func (c *Client) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	return c.change(ctx, http.MethodDelete, ruleSetPath(id), nil, change)
}

func (c *Client) change(ctx context.Context, method, path string, body any, change rules.Change) (int64, error) {
	op := call{method: method, path: path, body: body, header: http.Header{}}
	if change.Base == 0 {
		op.header.Set("If-None-Match", "*")
	} else {
		op.header.Set("If-Match", `"`+strconv.FormatInt(change.Base, 10)+`"`)
	}
	op.query = url.Values{}
	if change.Comment != "" {
		op.query.Set("comment", change.Comment)
	}
	if change.Force {
		op.query.Set("force", "true")
	}
	var answer rules.Entry
	if err := c.do(ctx, &op, &answer); err != nil {
		return 0, err
	}
	if answer.Revision < 1 {
		return 0, ErrNotAPI
	}
	return answer.Revision, nil
}

// Restore implements [Operator].
func (c *Client) Restore(ctx context.Context, id string, revision int64, change rules.Change) (int64, error) {
	return c.change(ctx, http.MethodPost, ruleSetPath(id, "revisions", strconv.FormatInt(revision, 10), "restore"), nil, change)
}

// Explain implements [Operator].
func (c *Client) Explain(ctx context.Context, req *fluxgate.Request) (*Explanation, error) {
	path := ruleSetPath(req.RuleSet, "explain")
	return fetch[Explanation](ctx, c, &call{method: http.MethodPost, path: path, body: wire.FromRequest(req)})
}

// Whoami implements [Operator].
func (c *Client) Whoami(ctx context.Context) (*Who, error) {
	return fetch[Who](ctx, c, &call{method: http.MethodGet, path: "/v1/whoami"})
}

// Reset implements [Operator].
func (c *Client) Reset(ctx context.Context, what Reset) error {
	return c.do(ctx, &call{method: http.MethodPost, path: ruleSetPath(what.RuleSet, "buckets", "reset"), body: what}, nil)
}
