package ratelimitenv

import (
	"net/url"
	"strings"
)

func (t *translator) redis() {
	if backend := t.get("BACKEND_TYPE"); backend != "" && backend != "redis" {
		t.refuse("BACKEND_TYPE", "must be redis")
		return
	}
	t.redisURI()
	t.copy("redis.prefix", "CACHE_KEY_PREFIX")
	t.copy("redis.pool.max-total", "REDIS_POOL_SIZE")
	t.copy("redis.timeout", "REDIS_TIMEOUT")
	if t.isTrue("REDIS_PERSECOND") {
		t.note("REDIS_PERSECOND", "limits by the second are counted in the Redis of REDIS_URL too")
	}
}

// redisURI translates the address of Redis. Nothing of it is in a message: it may have a
// password.
func (t *translator) redisURI() {
	address, auth, sentinelAuth := t.get("REDIS_URL"), t.get("REDIS_AUTH"), t.get("REDIS_SENTINEL_AUTH")
	socket := t.get("REDIS_SOCKET_TYPE")
	encrypted := t.isTrue("REDIS_TLS")
	for _, scheme := range []string{"redis://", "rediss://"} {
		if rest, ok := strings.CutPrefix(address, scheme); ok {
			address, encrypted = rest, encrypted || scheme == "rediss://"
		}
	}
	switch {
	case address == "":
		t.refuse("REDIS_URL", "is required, as host:port")
		return
	case socket == "unix" || strings.HasPrefix(address, "/"):
		t.refuse("REDIS_SOCKET_TYPE", "must be tcp: sockets are not supported")
		return
	}
	scheme, mode, suffix := "redis", "standalone", ""
	switch kind := t.get("REDIS_TYPE"); strings.ToLower(kind) {
	case "", "single":
	case "cluster":
		mode = "cluster"
	case "sentinel":
		mode = "sentinel"
		master, sentinels, ok := strings.Cut(address, ",")
		if !ok {
			t.refuse("REDIS_URL", "must be the name of the master and the sentinels, separated by commas, since REDIS_TYPE is SENTINEL")
			return
		}
		if auth != sentinelAuth {
			t.refuse("REDIS_SENTINEL_AUTH", "must be the same as REDIS_AUTH: servers and sentinels have one password here")
			return
		}
		address, suffix = sentinels, "/"+master
	default:
		t.refuse("REDIS_TYPE", "must be SINGLE, CLUSTER or SENTINEL")
		return
	}
	if t.redisTLS(encrypted); encrypted {
		scheme += "s"
	}
	if mode == "sentinel" {
		scheme += "-sentinel"
	}
	if auth != "" && !strings.Contains(address, "@") {
		address = credentials(auth) + "@" + address
	}
	t.set("redis.uri", scheme+"://"+address+suffix, "REDIS_URL")
	t.set("redis.mode", mode, "REDIS_TYPE")
}

func (t *translator) redisTLS(encrypted bool) {
	if encrypted {
		t.copy("redis.tls.ca-file", "REDIS_TLS_CACERT")
		t.copy("redis.tls.cert-file", "REDIS_TLS_CLIENT_CERT")
		t.copy("redis.tls.key-file", "REDIS_TLS_CLIENT_KEY")
	}
	t.refuseTrue("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "is not supported: use the name that is in the certificate")
}

// credentials are a password, or a user and a password, in a URI.
func credentials(auth string) string {
	encode := func(s string) string {
		return strings.NewReplacer(":", "%3A", "@", "%40", ",", "%2C").Replace(url.PathEscape(s))
	}
	user, password, both := strings.Cut(auth, ":")
	if !both {
		return encode(auth)
	}
	return encode(user) + ":" + encode(password)
}
