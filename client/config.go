package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/secret"
)

// Secret is bytes that no log and no error shows.
type Secret = secret.Bytes

// Config is how a [Client] works. Its zero value works with a server that asks
// for no token.
type Config struct {
	// Token is the bearer token that the server knows us by. Empty means none.
	Token Secret
	// TLS is how a server behind https:// is checked, and who we are if it
	// asks. Nil means by the system's authorities.
	TLS *tls.Config

	// Timeout bounds a decision without the time that a rule holds it, waiting
	// for a connection included. 0 means 200ms: twice what a server gives its
	// store, so that what it decides when the store is away arrives too.
	Timeout time.Duration
	// MaxWait is how long rules may hold a request beyond that. 0 means that
	// only waits that fit into half of Timeout are waited for.
	MaxWait time.Duration
	// MaxConns is the most connections to the server, in use or kept for the
	// next request. 0 means 256.
	MaxConns int
	// IdleTimeout is how long a connection is kept that nobody uses. It must
	// be shorter than the server's. 0 means 30s.
	IdleTimeout time.Duration

	// Headers are the names of the headers that rules look at. Nil means all
	// but those with credentials; an empty list none.
	Headers []string

	// OnFailure is what happens to requests that the server does not decide.
	// Empty means FailLocal with a Fallback and FailOpen without one.
	OnFailure fluxgate.OnFailure
	// Fallback decides for FailLocal: an engine with a store in memory, and
	// rules at this process's share.
	Fallback *fluxgate.Engine
	// Failed hears why the server has not decided or settled. It is called on
	// the path of a request and must be quick. Nil means nobody.
	Failed func(ctx context.Context, err error)
}

// withDefaults fills in what was left out, and refuses what cannot be meant.
func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = 200 * time.Millisecond
	}
	if c.MaxConns == 0 {
		c.MaxConns = 256
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 30 * time.Second
	}
	if c.OnFailure == "" {
		c.OnFailure = fluxgate.FailOpen
		if c.Fallback != nil {
			c.OnFailure = fluxgate.FailLocal
		}
	}
	switch c.OnFailure {
	case fluxgate.FailOpen, fluxgate.FailClosed, fluxgate.FailLocal:
	default:
		return c, fmt.Errorf("unknown failure mode %q", c.OnFailure)
	}
	if c.Failed == nil {
		c.Failed = func(context.Context, error) {}
	}
	switch {
	case c.Timeout < time.Millisecond:
		return c, fmt.Errorf("the timeout must be at least 1ms, not %v", c.Timeout)
	case c.MaxWait < 0 || c.MaxWait > fluxgate.MaxWait:
		return c, fmt.Errorf("the longest wait must be 0 to %v, not %v", fluxgate.MaxWait, c.MaxWait)
	case c.MaxConns < 1 || c.IdleTimeout < 0:
		return c, errors.New("there must be a connection, and a time to keep it")
	case (c.OnFailure == fluxgate.FailLocal) != (c.Fallback != nil):
		return c, errors.New("a fallback and the failure mode local go together")
	case !isToken68(c.Token):
		return c, errors.New("the token has characters that a bearer token cannot have")
	}
	return c, nil
}

// isToken68 is what HTTP allows as a bearer token.
func isToken68(token []byte) bool {
	for _, b := range token {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return true
}

// endpoint reads a server's address. What it refuses is not shown: there may
// be a password in it.
func endpoint(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the server's address must be http://host:port or https://host:port")
	case u.User != nil:
		return nil, errors.New("the server's address must be without a user: use a token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the server's address must be without a query")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// credentials are headers that are nobody else's business.
var credentials = map[string]bool{"Authorization": true, "Cookie": true, "Proxy-Authorization": true}

// headerFilter says which headers travel.
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
