package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// parseURI reads where the servers are. Its errors never show the URI, which
// may hold a password.
func parseURI(uri string) (target, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return target{}, errors.New("the Redis URI has no scheme: use redis://, rediss:// or redis-sentinel://")
	}
	credentials, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		credentials, hosts = rest[:at], rest[at+1:]
	}
	hosts, query, _ := strings.Cut(hosts, "?")
	hosts, path, _ := strings.Cut(hosts, "/")
	if query != "" {
		return target{}, errors.New("the Redis URI has options behind a question mark: set them in the configuration")
	}
	user, password, err := parseCredentials(credentials)
	if err != nil {
		return target{}, err
	}
	options := redis.Options{
		Username: user, Password: password,
		// Nothing but our own commands, so that the smallest ACL is enough.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if strings.HasPrefix(scheme, "rediss") {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch scheme {
	case "redis", "rediss":
		return serverTarget(options, hosts, path)
	case "redis-sentinel", "rediss-sentinel":
		return sentinelTarget(options, hosts, path)
	}
	return target{}, errors.New("the scheme of the Redis URI is unknown: use redis://, rediss:// or redis-sentinel://")
}

func parseCredentials(s string) (user, password string, err error) {
	if s == "" {
		return "", "", nil
	}
	rawUser, rawPassword, both := strings.Cut(s, ":")
	if !both {
		rawUser, rawPassword = "", s
	}
	user, err1 := url.PathUnescape(rawUser)
	password, err2 := url.PathUnescape(rawPassword)
	if err1 != nil || err2 != nil {
		return "", "", errors.New("the credentials of the Redis URI are not percent-encoded correctly")
	}
	return user, password, nil
}

// serverTarget is one server, or the seeds of a cluster.
func serverTarget(options redis.Options, hosts, path string) (target, error) {
	addrs, err := parseHosts(hosts, "6379")
	if err != nil {
		return target{}, err
	}
	if path != "" {
		if options.DB, err = strconv.Atoi(path); err != nil || options.DB < 0 {
			return target{}, errors.New("the path of the Redis URI must be the number of a database")
		}
	}
	t := target{
		mode: ModeAuto, addrs: addrs, secrets: []string{options.Password},
		connect: func(addr string, pool Pool) *redis.Client { return connect(options, addr, pool) },
	}
	if len(addrs) > 1 {
		t.mode = ModeCluster
		if options.DB != 0 {
			return target{}, errors.New("the Redis URI names a database, and several hosts: a cluster has only database 0")
		}
	}
	return t, nil
}

// sentinelTarget is a master that Sentinel knows by name.
func sentinelTarget(options redis.Options, hosts, path string) (target, error) {
	addrs, err := parseHosts(hosts, "26379")
	if err != nil {
		return target{}, err
	}
	if path == "" || strings.Contains(path, "/") {
		return target{}, errors.New("the path of a redis-sentinel:// URI must be the name of the master")
	}
	finder := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: path, SentinelAddrs: addrs,
		Username: options.Username, Password: options.Password,
		SentinelUsername: options.Username, SentinelPassword: options.Password,
		TLSConfig: options.TLSConfig, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	own := *finder.Options()
	own.DisableIdentity = true
	dials := watchDials(own.Dialer, finder.Close)
	own.Dialer = dials.Dial
	return target{
		mode: ModeSentinel, master: rememberMaster(&own), addrs: []string{failoverAddr}, secrets: []string{options.Password}, client: finder,
		connect: func(addr string, pool Pool) *redis.Client { return connect(own, addr, pool) }, close: dials.close,
	}, nil
}

// parseHosts reads a list of hosts. What is no host is not shown: where an @ is
// missing it is the password.
func parseHosts(list, defaultPort string) ([]string, error) {
	var addrs []string
	for _, host := range strings.Split(list, ",") {
		if host == "" {
			return nil, errors.New("the Redis URI names no host")
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ""
		}
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || !isHost(name) {
			return nil, errors.New("a host in the Redis URI is not of the form host, host:port or [ipv6]:port")
		}
		addrs = append(addrs, net.JoinHostPort(name, port))
	}
	return addrs, nil
}

// isHost reports whether a name can be looked up, or is an address.
func isHost(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return name != ""
}
