package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// URI is where a server is, which may have a password in it. string(u) has it;
// nothing that prints does.
type URI string

// String is the URI without its secrets. One that cannot be read is hidden as a
// whole: where an @ is missing, the password is taken for a host.
func (u URI) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok {
		if u == "" || isHostPort(string(u)) {
			return string(u)
		}
		return secret.Hidden
	}
	if checkURI(u) != nil {
		return secret.Hidden
	}
	credentials, rest := cutCredentials(rest)
	if credentials != "" {
		name, _, both := strings.Cut(credentials, ":")
		if !both {
			name = secret.Hidden
		} else {
			name += ":" + secret.Hidden
		}
		rest = name + "@" + rest
	}
	return scheme + "://" + maskQuery(rest)
}

// GoString hides secrets from %#v.
func (u URI) GoString() string { return strconv.Quote(u.String()) }

// MarshalText hides them from encoders.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Hash is the hash of a token, which is not shown either: a token that is easy
// to guess can be found from it.
type Hash string

// String hides the hash.
func (h Hash) String() string { return secret.Bytes(h).String() }

// GoString hides it from %#v.
func (h Hash) GoString() string { return strconv.Quote(h.String()) }

// MarshalText hides it from encoders.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// cutCredentials cuts what stands before the last @, so that one in a password
// that should have been encoded leaves nothing behind.
func cutCredentials(rest string) (credentials, after string) {
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		return rest[:at], rest[at+1:]
	}
	return "", rest
}

// maskQuery hides the values of options that may have a secret.
func maskQuery(s string) string {
	before, query, found := strings.Cut(s, "?")
	if !found {
		return s
	}
	options := strings.Split(query, "&")
	for i, option := range options {
		name, _, _ := strings.Cut(option, "=")
		lower := strings.ToLower(name)
		if yamltree.NamesSecret(name) || strings.Contains(lower, "token") || strings.Contains(lower, "properties") {
			options[i] = name + "=" + secret.Hidden
		}
	}
	return before + "?" + strings.Join(options, "&")
}

// checkURI reports what is wrong with a URI of any scheme that a key can have.
// Errors show no part of it.
func checkURI(u URI) error {
	scheme, _, _ := strings.Cut(string(u), "://")
	switch {
	case strings.HasPrefix(scheme, "redis"):
		_, err := parseRedis(u)
		return err
	case strings.HasPrefix(scheme, "mongodb"):
		_, err := parseMongo(u)
		return err
	}
	return checkHTTP(u)
}

// redisURI is what a URI of Redis says.
type redisURI struct {
	scheme      string
	credentials string // as written, without the @
	hosts       []string
	path        string
}

func (r redisURI) String() string {
	s := r.scheme + "://"
	if r.credentials != "" {
		s += r.credentials + "@"
	}
	if s += strings.Join(r.hosts, ","); r.path != "" {
		s += "/" + r.path
	}
	return s
}

var redisSchemes = []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel"}

// parseRedis reads where Redis is. The nodes of a cluster may also be written
// with a scheme each: redis://node1:6379,redis://node2:6379.
func parseRedis(u URI) (redisURI, error) {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok || !slices.Contains(redisSchemes, scheme) {
		return redisURI{}, errors.New("must begin with redis://, rediss:// or redis-sentinel://")
	}
	r := redisURI{scheme: scheme}
	for i, part := range strings.Split(rest, ","+scheme+"://") {
		credentials, hosts := cutCredentials(part)
		hosts, query, _ := strings.Cut(hosts, "?")
		hosts, path, _ := strings.Cut(hosts, "/")
		switch {
		case query != "":
			return redisURI{}, errors.New("has options behind a question mark: they are keys of their own")
		case i == 0:
			r.credentials = credentials
		case credentials != "" && credentials != r.credentials:
			return redisURI{}, errors.New("has several hosts with different credentials: write them once")
		}
		if path != "" {
			r.path = path
		}
		r.hosts = append(r.hosts, strings.Split(hosts, ",")...)
	}
	if _, err := url.PathUnescape(r.credentials); err != nil {
		return redisURI{}, errors.New("has credentials that are not percent-encoded correctly")
	}
	for _, host := range r.hosts {
		if !isHostPort(host) {
			return redisURI{}, errors.New("must name hosts as host, host:port or [ipv6]:port: is an @ missing after the password?")
		}
	}
	return r, r.checkPath()
}

func (r redisURI) checkPath() error {
	if r.isSentinel() {
		if r.path == "" || strings.Contains(r.path, "/") {
			return errors.New("must end in the name of the master: redis-sentinel://host1,host2/master-name")
		}
		return nil
	}
	if r.path == "" {
		return nil
	}
	switch n, err := strconv.ParseUint(r.path, 10, 16); {
	case err != nil:
		return errors.New("must have the number of a database behind the slash, or nothing")
	case n > 0 && len(r.hosts) > 1:
		return errors.New("names several hosts and a database: a cluster has only database 0")
	}
	return nil
}

func (r redisURI) isSentinel() bool { return strings.HasSuffix(r.scheme, "-sentinel") }

// Target is the URI to connect to: the cluster's nodes are in it, and its
// scheme stands once. The error, of a configuration that was not checked, does
// not show it.
func (r Redis) Target() (URI, error) {
	parsed, err := parseRedis(r.URI)
	if err != nil {
		return "", errors.New("redis.uri " + err.Error())
	}
	if len(r.ClusterNodes) > 0 {
		parsed.hosts = nil
		for _, node := range r.ClusterNodes {
			parsed.hosts = append(parsed.hosts, string(node))
		}
	}
	return URI(parsed.String()), nil
}

// parseMongo checks where MongoDB is, and returns the database that the URI
// names, empty if it names none.
func parseMongo(u URI) (database string, err error) {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok || scheme != "mongodb" && scheme != "mongodb+srv" {
		return "", errors.New("must begin with mongodb:// or mongodb+srv://")
	}
	credentials, rest := cutCredentials(rest)
	if _, err := url.PathUnescape(credentials); err != nil {
		return "", errors.New("has credentials that are not percent-encoded correctly")
	}
	hosts, _, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(hosts, "/")
	for _, host := range strings.Split(hosts, ",") {
		if !isHostPort(host) && !strings.HasPrefix(host, "%2F") { // the path of a socket
			return "", errors.New("must name hosts as host, host:port or [ipv6]:port: is an @ missing after the password?")
		}
	}
	if database, err = url.PathUnescape(path); err != nil {
		return "", errors.New("names a database that is not percent-encoded correctly")
	}
	return database, nil
}

func checkHTTP(u URI) error {
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || !isHostPort(parsed.Host) {
		return errors.New("must be of the form http://host:port or https://host:port")
	}
	return nil
}

// isHostPort reports whether s is a host with or without a port.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), "1"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && isHost(host)
}

// isHost reports whether a name can be looked up, or is an address.
func isHost(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 253
}
