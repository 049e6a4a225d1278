package testenv

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config configures an environment. The zero value is a server without TLS, users and
// persistence.
type Config struct {
	// TLS serves TLS only, also between the servers.
	TLS bool

	// MutualTLS also requires a client certificate; it implies TLS.
	MutualTLS bool

	// Password is that of the default user.
	Password string

	// Users are the ACL users. Username, Password and URI are those of the first
	// one. With users and no Password, the default user is off.
	Users []User

	// OpenSentinels leaves the sentinels without users, while the servers they
	// monitor have them.
	OpenSentinels bool

	// NodeTimeout is after what time without an answer a node of a cluster counts as failed. 0 means
	// 1.5 s. A replica takes over after about twice as long.
	NodeTimeout time.Duration

	// Persist writes every command to disk before it is answered, so that data
	// survives Kill and Restart. Without it a restarted server is empty.
	Persist bool

	// SteppedClock lets [Server.StepClock] change the clock of the data servers. It needs
	// gcc.
	SteppedClock bool

	// Directives are additional lines of the data servers' redis.conf.
	Directives []string
}

// User is an ACL user.
type User struct {
	Name     string
	Password string

	// Rules are ACL rules as in redis.conf; empty means that everything is
	// permitted. Sentinels permit everything to every user.
	Rules string
}

const allowAll = "~* &* +@all"

// validate returns an error for values that redis.conf cannot represent.
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

// adminName is the user of this package, the replicas and the sentinels. The users of a
// test may have any restrictions.
const adminName = "testenv"

// access has the credentials of a client.
type access struct {
	username, password string // of the test
	admin, adminPass   string // of this package; empty without users
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

// open returns the access to a server without users.
func (a access) open() access {
	return access{tls: a.tls, certs: a.certs}
}

// Username returns the ACL user of a client, empty for the default user.
func (a access) Username() string { return a.username }

// Password returns the password of a client, empty if none is required.
func (a access) Password() string { return a.password }

// TLSConfig returns a copy of a client's TLS configuration, nil if the servers use plain
// TCP.
func (a access) TLSConfig() *tls.Config {
	if a.tls == nil {
		return nil
	}
	return a.tls.Clone()
}

// Certificates returns the files of TLSConfig, nil without TLS of this package.
func (a access) Certificates() *Certificates { return a.certs }

// uri returns a URI with scheme ("redis" or "redis-sentinel"), credentials and hosts.
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

// userLines returns the ACL lines of redis.conf. Passwords are hashed, so they need no
// quoting.
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
