// Package syntax validates names of hosts, headers and methods.
package syntax

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// IsLoopback reports whether a host can be reached from this machine only. A name other
// than localhost may resolve to any address.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || host == "localhost"
}

// IsHost reports whether s is an address or a valid host name.
func IsHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || IsHostname(s)
}

// IsHostname reports whether s can be the name of a host. Underscores are
// allowed, because container networks have them.
func IsHostname(s string) bool { return s != "" && len(s) <= 253 && Only(s, ".-_") }

// HostPort is a host with its port, or with the one that is given if it has
// none. It reports whether s is of the form host, host:port or [ipv6]:port.
func HostPort(s, port string) (addr string, ok bool) {
	host, own, err := net.SplitHostPort(s)
	switch {
	case err != nil:
		host = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	case own != "":
		port = own
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(host, port), err == nil && n > 0 && IsHost(host)
}

// IsToken reports whether s is a token of RFC 9110: a method, or the name of a
// header.
func IsToken(s string) bool { return s != "" && Only(s, "!#$%&'*+-.^_`|~") }

// Only reports whether s has only ASCII letters, digits and characters of others.
func Only(s, others string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}
