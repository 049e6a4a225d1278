package testenv

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// Config says how an environment differs from the plain one. The zero value is
// a server without TLS, users or persistence.
type Config struct {
	// TLS serves TLS only, between the servers too.
	TLS bool

	// MutualTLS also demands a client certificate; it implies TLS.
	MutualTLS bool

	// Password is that of the default user.
	Password string

	// Users are the ACL users. The first is the one that Username, Password and
	// URI name. Where there are users and no Password, the default user is off.
	Users []User

	// OpenSentinels leaves the sentinels without users, as many installations
	// do, while the servers they watch have them.
	OpenSentinels bool

	// Persist writes every command to disk before it is answered, so that data
	// survives Kill and Restart. Without it a restarted server is empty.
	Persist bool

	// Directives are further lines of the data servers' redis.conf.
	Directives []string
}

// User is an ACL user.
type User struct {
	Name     string
	Password string

	// Rules are ACL rules as in redis.conf; empty means everything is allowed.
	// Sentinels hold no data, so there every user is allowed everything.
	Rules string
}

const allowAll = "~* &* +@all"

// validate refuses what redis.conf could not express.
func (c Config) validate() error {
	for _, u := range c.Users {
		if u.Name == "" || u.Password == "" || strings.ContainsAny(u.Name, " \t\r\n\"'") {
			return fmt.Errorf("testenv: user %q needs a name without spaces or quotes, and a password", u.Name)
		}
		if u.Name == adminName || u.Name == "default" {
			return fmt.Errorf("testenv: the user name %q is taken", u.Name)
		}
	}
	for _, line := range append([]string{""}, c.Directives...) {
		if strings.ContainsAny(line, "\r\n") {
			return fmt.Errorf("testenv: directive %q is more than one line", line)
		}
	}
	return nil
}

func (c Config) secured() bool { return c.Password != "" || len(c.Users) > 0 }

// adminName is the user of this package, the replicas and the sentinels. The
// test's own users may be as restricted as the test likes.
const adminName = "testenv"

// access is what a client needs to get in, besides an address.
type access struct {
	username, password string // the test's
	admin, adminPass   string // ours; empty when there are no users
	tls                *tls.Config
	certs              *Certificates
	db                 int
}

func newAccess(cfg Config, certs *Certificates) access {
	a := access{certs: certs}
	if certs != nil {
		a.tls = certs.ClientConfig()
	}
	if !cfg.secured() {
		return a
	}
	a.admin, a.adminPass = adminName, rand.Text()
	if len(cfg.Users) > 0 {
		a.username, a.password = cfg.Users[0].Name, cfg.Users[0].Password
	} else {
		a.password = cfg.Password
	}
	return a
}

// open is the same access to a server that knows no users.
func (a access) open() access {
	return access{tls: a.tls, certs: a.certs}
}

// Username is the ACL user a client logs in as, empty for the default user.
func (a access) Username() string { return a.username }

// Password is what a client logs in with, empty when none is asked for.
func (a access) Password() string { return a.password }

// TLSConfig is a client's TLS configuration, nil when the servers speak plain
// TCP. Each call returns a copy.
func (a access) TLSConfig() *tls.Config {
	if a.tls == nil {
		return nil
	}
	return a.tls.Clone()
}

// Certificates are the files behind TLSConfig, nil without TLS of our own making.
func (a access) Certificates() *Certificates { return a.certs }

// uri puts scheme ("redis" or "redis-sentinel"), credentials and hosts together.
func (a access) uri(scheme string, hosts []string, path string) string {
	if a.tls != nil {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	u := url.URL{Scheme: scheme, Host: strings.Join(hosts, ","), Path: path}
	if a.password != "" {
		u.User = url.UserPassword(a.username, a.password)
	}
	return u.String()
}

// userLines are the ACL lines of redis.conf. Passwords stand there as hashes,
// which need no quoting.
func userLines(cfg Config, a access, sentinel bool) []string {
	if a.admin == "" {
		return nil
	}
	line := func(name, password, rules string) string {
		if rules == "" || sentinel {
			rules = allowAll
		}
		sum := sha256.Sum256([]byte(password))
		return fmt.Sprintf("user %s on #%s %s", name, hex.EncodeToString(sum[:]), rules)
	}
	lines := []string{line(a.admin, a.adminPass, "")}
	if cfg.Password != "" {
		lines = append(lines, line("default", cfg.Password, ""))
	} else {
		lines = append(lines, "user default off")
	}
	for _, u := range cfg.Users {
		lines = append(lines, line(u.Name, u.Password, u.Rules))
	}
	return lines
}
