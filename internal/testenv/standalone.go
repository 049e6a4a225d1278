package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// StartStandalone starts a server for one test and stops it with the test.
func StartStandalone(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	return start(tb, cfg, startStandalone)
}

func startStandalone(ctx context.Context, cfg Config) (*Server, error) {
	g, err := newGroup(cfg)
	if err != nil {
		return nil, err
	}
	s, err := g.start(ctx, spec{role: "standalone"})
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return s, nil
}

func (s *Server) lifecycle() lifecycle {
	if s.group == nil {
		return nil
	}
	return s.group
}

// foreignServer returns the server of a URI: redis://user:password@host:port/db, or
// rediss://, verified with the system's authorities (or SSL_CERT_FILE).
func foreignServer(uri string) (*Server, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, errors.New("not a URI") // url.Error would show the password
	}
	host, port := u.Hostname(), u.Port()
	if host == "" || strings.Contains(u.Host, ",") {
		return nil, fmt.Errorf("%q is not one host", u.Host)
	}
	if port == "" {
		port = "6379"
	}
	s := &Server{addr: net.JoinHostPort(host, port)}
	switch u.Scheme {
	case "redis":
	case "rediss":
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	default:
		return nil, fmt.Errorf("scheme %q is neither redis nor rediss", u.Scheme)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if s.db, err = strconv.Atoi(db); err != nil {
			return nil, fmt.Errorf("database %q is not a number", db)
		}
	}
	s.username = u.User.Username()
	s.password, _ = u.User.Password()
	return s, nil
}
