package clientip

import (
	"net/netip"
	"strings"
)

// maxAddr bounds the text of an address: 45 bytes and room for brackets, a
// port and a zone.
const maxAddr = 128

// parseAddr reads the address of a peer or an entry of a proxy, with or without
// brackets, port and zone, and returns the address alone. 0.0.0.0 and :: are not
// accepted, nor are spellings that programs read differently: octal, hexadecimal
// and shortened IPv4.
func parseAddr(s string) (addr netip.Addr, ok bool) {
	if len(s) > maxAddr {
		return netip.Addr{}, false
	}
	host, port := splitPort(s)
	if port != "" && !isPort(port) {
		return netip.Addr{}, false
	}
	// The zone is cut before parsing, since netip would keep it in memory.
	if before, zone, found := strings.Cut(host, "%"); found {
		if zone == "" || !strings.Contains(before, ":") {
			return netip.Addr{}, false
		}
		host = before
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	return addr, true
}

// splitPort cuts off the port with its colon. Without brackets only an IPv4
// address can have one. Brackets around anything but IPv6 leave no host.
func splitPort(s string) (host, port string) {
	if inside, ok := strings.CutPrefix(s, "["); ok {
		host, port, _ = strings.Cut(inside, "]")
		if len(host) == len(inside) || !strings.Contains(host, ":") {
			return "", ""
		}
		return host, port
	}
	if colon := strings.IndexByte(s, ':'); colon >= 0 && strings.IndexByte(s[colon+1:], ':') < 0 {
		return s[:colon], s[colon:]
	}
	return s, ""
}

// isPort reports whether s is a colon and one to five digits.
func isPort(s string) bool {
	s, found := strings.CutPrefix(s, ":")
	return found && len(s) >= 1 && len(s) <= 5 && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// trim removes spaces and tabs around an entry.
func trim(s string) string { return strings.Trim(s, " \t") }
