package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Secret is a string that logs and errors do not show.
type Secret = secret.Bytes

// Config configures a [Client]. Its zero value works with a server without
// authentication.
type Config struct {
	// Token is the bearer token of the client. Empty means none.
	Token Secret
	// TLS configures https://: the authorities, and a client certificate. Nil
	// means the authorities of the system.
	TLS *tls.Config

	// Timeout bounds a decision, including the wait for a connection but not the
	// time that a rule holds the request. 0 means 200ms: twice the timeout of the
	// server's store, so that a decision without the store arrives in time.
	Timeout time.Duration
	// MaxWait is how long rules may hold a request beyond Timeout. 0 means that a
	// request is held for at most half of Timeout.
	MaxWait time.Duration
	// MaxConns bounds the connections to the server, busy and idle. 0 means 256.
	MaxConns int
	// IdleTimeout is how long an idle connection is kept. It must be shorter
	// than the server's. 0 means 30s.
	IdleTimeout time.Duration

	// Headers are the names of the headers that are sent. Nil means all headers
	// except those with credentials, an empty list none.
	Headers []string

	// OnFailure decides requests that the server does not decide.
	// Empty means FailLocal with a Fallback and FailOpen without one.
	OnFailure rules.OnFailure
	// Fallback decides for FailLocal: an engine with a store in memory, and with rules
	// at the share of this process.
	Fallback *fluxgate.Engine
	// Failed is called with the error if the server has not decided or settled a
	// request. It runs during the request and must be fast. Nil means no call.
	Failed func(ctx context.Context, err error)
}

// withDefaults fills in empty fields and returns the first problem.
func (c Config) withDefaults() (Config, error) {
	c.Timeout = cmp.Or(c.Timeout, 200*time.Millisecond)
	c.MaxConns = cmp.Or(c.MaxConns, 256)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	if c.OnFailure == "" {
		c.OnFailure = rules.FailOpen
		if c.Fallback != nil {
			c.OnFailure = rules.FailLocal
		}
	}
	switch c.OnFailure {
	case rules.FailOpen, rules.FailClosed, rules.FailLocal:
	default:
		return c, fmt.Errorf("unknown failure mode %q", c.OnFailure)
	}
	if c.Failed == nil {
		c.Failed = func(context.Context, error) {}
	}
	switch {
	case c.Timeout < time.Millisecond:
		return c, fmt.Errorf("the timeout must be at least 1ms, not %v", c.Timeout)
	case c.MaxWait < 0 || c.MaxWait > store.MaxWait:
		return c, fmt.Errorf("MaxWait must be 0 to %v, not %v", store.MaxWait, c.MaxWait)
	case c.MaxConns < 1 || c.IdleTimeout < 0:
		return c, errors.New("MaxConns and IdleTimeout must be positive")
	case (c.OnFailure == rules.FailLocal) != (c.Fallback != nil):
		return c, errors.New("the failure mode local needs a Fallback, and the others must have none")
	case !isToken68(c.Token):
		return c, errors.New("the token has characters that are not allowed in a bearer token")
	}
	return c, nil
}

// isToken68 reports whether HTTP allows a bearer token.
func isToken68(token []byte) bool {
	return !slices.ContainsFunc(token, func(b byte) bool { return b <= ' ' || b > '~' })
}

// endpoint parses the address of a server. Errors do not contain it: it may have a
// password.
func endpoint(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the server's address must be http://host:port or https://host:port")
	case u.User != nil:
		return nil, errors.New("the server's address must not have a user: use a token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the server's address must not have a query")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// credentials are headers that are not sent by default.
var credentials = map[string]bool{"Authorization": true, "Cookie": true, "Proxy-Authorization": true}

// headerFilter returns whether a header is sent.
func headerFilter(names []string) func(name string) bool {
	if names == nil {
		return func(name string) bool { return !credentials[textproto.CanonicalMIMEHeaderKey(name)] }
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return func(name string) bool { return wanted[textproto.CanonicalMIMEHeaderKey(name)] }
}
