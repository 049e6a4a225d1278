package config

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/redisuri"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// URI is the address of a server. It may hold a password: string(u) shows the password,
// String and encoders hide it.
type URI string

// String returns the URI without its secrets. An invalid URI is hidden as a
// whole: without its @, a password looks like a host.
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
	if credentials, after := redisuri.CutCredentials(rest); credentials != "" {
		user, _, both := strings.Cut(credentials, ":")
		if both {
			user += ":"
		} else {
			user = ""
		}
		rest = user + secret.Hidden + "@" + after
	}
	return scheme + "://" + maskQuery(rest)
}

// GoString hides secrets from %#v.
func (u URI) GoString() string { return strconv.Quote(u.String()) }

// MarshalText hides secrets from encoders.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Webhook is a URL. Only its host is shown: the path may be a secret.
type Webhook string

// String returns the URL without its path and credentials.
func (w Webhook) String() string {
	parsed, err := url.Parse(string(w))
	switch {
	case w == "":
		return ""
	case err != nil || checkHTTP(URI(w)) != nil:
		return secret.Hidden
	}
	return parsed.Scheme + "://" + parsed.Host + "/" + secret.Hidden
}

// GoString hides the path from %#v.
func (w Webhook) GoString() string { return strconv.Quote(w.String()) }

// MarshalText hides the path from encoders.
func (w Webhook) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Hash is the hash of a token. It is hidden too, since a weak token can be guessed
// from it.
type Hash string

// String hides the hash.
func (h Hash) String() string { return secret.Bytes(h).String() }

// GoString hides the hash from %#v.
func (h Hash) GoString() string { return strconv.Quote(h.String()) }

// MarshalText hides the hash from encoders.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// secretOption matches the names of options whose values may be secret.
var secretOption = regexp.MustCompile(`(?i)api.?key|authorization|cookie|secret|password|token|properties`)

// maskQuery hides the values of options that may hold a secret.
func maskQuery(s string) string {
	before, query, found := strings.Cut(s, "?")
	if !found {
		return s
	}
	options := strings.Split(query, "&")
	for i, option := range options {
		if name, _, _ := strings.Cut(option, "="); secretOption.MatchString(name) {
			options[i] = name + "=" + secret.Hidden
		}
	}
	return before + "?" + strings.Join(options, "&")
}

// checkURI checks a URI of any scheme that a setting can have. Errors show no
// part of it.
func checkURI(u URI) error {
	scheme, _, _ := strings.Cut(string(u), "://")
	switch {
	case strings.HasPrefix(scheme, "redis"):
		_, err := redisuri.Parse(string(u))
		return err
	case strings.HasPrefix(scheme, "mongodb"):
		_, err := parseMongo(u)
		return err
	}
	return checkHTTP(u)
}

// Login returns the user and the password of a URI of MongoDB.
func (u URI) Login() (user, password string) {
	_, rest, _ := strings.Cut(string(u), "://")
	credentials, _ := redisuri.CutCredentials(rest)
	user, password, _ = strings.Cut(credentials, ":")
	user, _ = url.PathUnescape(user) // checked by Check
	password, _ = url.PathUnescape(password)
	return user, password
}

// Target returns the URI to connect to, with the nodes of the cluster. The error,
// for an invalid URI, does not show the URI.
func (r Redis) Target() (URI, error) {
	parsed, err := redisuri.Parse(string(r.URI))
	if err != nil {
		return "", errors.New("redis.uri " + err.Error())
	}
	if len(r.ClusterNodes) > 0 {
		parsed.Hosts = nil
		for _, node := range r.ClusterNodes {
			parsed.Hosts = append(parsed.Hosts, string(node))
		}
	}
	return URI(parsed.String()), nil
}

// parseMongo checks a URI of MongoDB, and returns the database that it names,
// empty if it names none.
func parseMongo(u URI) (database string, err error) {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok || scheme != "mongodb" && scheme != "mongodb+srv" {
		return "", errors.New("must begin with mongodb:// or mongodb+srv://")
	}
	credentials, rest := redisuri.CutCredentials(rest)
	if _, err := url.PathUnescape(credentials); err != nil {
		return "", errors.New("has credentials that are not percent-encoded correctly")
	}
	hosts, _, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(hosts, "/")
	for host := range strings.SplitSeq(hosts, ",") {
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

func isHostPort(s string) bool {
	_, ok := syntax.HostPort(s, "1")
	return ok
}
