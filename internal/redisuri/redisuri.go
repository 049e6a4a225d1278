// Package redisuri parses Redis URIs, for the store and for the server's configuration:
//
//	redis://user:password@host:6379/0                one server, or a cluster if it is part of one
//	redis://host1:6379,host2:6379                    a cluster
//	redis://host1:6379,redis://host2:6379            the same
//	redis-sentinel://host1:26379,host2:26379/master  with Sentinel
//
// rediss:// and rediss-sentinel:// are the same over TLS. Errors complete the words "the
// URI" and show no part of it: if the @ is missing, a password looks like a host.
package redisuri

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// URI is a parsed URI.
type URI struct {
	Scheme      string
	Credentials string // as written, without the @
	Hosts       []string
	Path        string // a database, or the name of Sentinel's master
}

var schemes = []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel"}

// Parse parses a URI.
func Parse(uri string) (URI, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return URI{}, errors.New("must begin with redis://, rediss:// or redis-sentinel://")
	}
	u := URI{Scheme: scheme}
	for i, part := range strings.Split(rest, ","+scheme+"://") {
		credentials, hosts := CutCredentials(part)
		hosts, query, _ := strings.Cut(hosts, "?")
		hosts, path, _ := strings.Cut(hosts, "/")
		switch {
		case query != "":
			return URI{}, errors.New("has options after a question mark: use the settings of the configuration")
		case i == 0:
			u.Credentials = credentials
		case credentials != "" && credentials != u.Credentials:
			return URI{}, errors.New("has several hosts with different credentials: write them once")
		}
		if path != "" {
			u.Path = path
		}
		u.Hosts = append(u.Hosts, strings.Split(hosts, ",")...)
	}
	if _, err := url.PathUnescape(u.Credentials); err != nil {
		return URI{}, errors.New("has credentials that are not percent-encoded correctly")
	}
	for _, host := range u.Hosts {
		if _, ok := syntax.HostPort(host, "1"); !ok {
			return URI{}, errors.New("must name hosts as host, host:port or [ipv6]:port: is an @ missing after the password?")
		}
	}
	return u, u.checkPath()
}

// CutCredentials cuts at the last @, because a password may have one that is not
// encoded.
func CutCredentials(rest string) (credentials, after string) {
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		return rest[:at], rest[at+1:]
	}
	return "", rest
}

func (u URI) checkPath() error {
	if u.IsSentinel() {
		if u.Path == "" || strings.Contains(u.Path, "/") {
			return errors.New("must end in the name of the master: redis-sentinel://host1,host2/master-name")
		}
		return nil
	}
	if u.Path == "" {
		return nil
	}
	switch n, err := strconv.ParseUint(u.Path, 10, 16); {
	case err != nil:
		return errors.New("must have the number of a database after the slash, or nothing")
	case n > 0 && len(u.Hosts) > 1:
		return errors.New("names several hosts and a database: a cluster has only database 0")
	}
	return nil
}

// String returns the URI with the password, and with its scheme once.
func (u URI) String() string {
	s := u.Scheme + "://"
	if u.Credentials != "" {
		s += u.Credentials + "@"
	}
	if s += strings.Join(u.Hosts, ","); u.Path != "" {
		s += "/" + u.Path
	}
	return s
}

// IsSentinel reports whether the hosts are sentinels.
func (u URI) IsSentinel() bool { return strings.HasSuffix(u.Scheme, "-sentinel") }

// IsTLS reports whether connections are encrypted.
func (u URI) IsTLS() bool { return strings.HasPrefix(u.Scheme, "rediss") }

// Database returns the number of the database.
func (u URI) Database() int {
	n, _ := strconv.Atoi(u.Path) // checked by Parse, or the name of a master
	return n
}

// Login returns the user and the password. A single word is the password, as in
// redis-cli.
func (u URI) Login() (user, password string) {
	user, password, both := strings.Cut(u.Credentials, ":")
	if !both {
		user, password = "", u.Credentials
	}
	user, _ = url.PathUnescape(user) // checked by Parse
	password, _ = url.PathUnescape(password)
	return user, password
}

// Addrs returns the hosts with their ports.
func (u URI) Addrs() []string {
	port := "6379"
	if u.IsSentinel() {
		port = "26379"
	}
	addrs := make([]string, len(u.Hosts))
	for i, host := range u.Hosts {
		addrs[i], _ = syntax.HostPort(host, port) // checked by Parse
	}
	return addrs
}
