package clientip_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

const nearest = "10.0.0.1:80" // the proxy that most requests come from

// The header X-Forwarded-For is walked from the right.
func TestResolver_XForwardedFor(t *testing.T) {
	one := func(line string) []string { return []string{line} }
	resolve(t, clientip.Config{TrustedProxies: proxies}, []resolution{
		// Who is believed.
		{"one proxy names its client", nearest, one("192.0.2.7"), "192.0.2.7"},
		{"two proxies name each other and the client", nearest, one("192.0.2.7, 10.0.0.2"), "192.0.2.7"},
		{"three proxies of both families", nearest, one("192.0.2.7, 2001:db8:aaaa::3, 10.0.0.2"), "192.0.2.7"},
		{"an IPv6 proxy names its client", "[2001:db8:aaaa::1]:80", one("192.0.2.7"), "192.0.2.7"},
		{"a peer that is not trusted names another", "198.51.100.1:80", one("192.0.2.7"), "198.51.100.1"},
		{"a peer that is not trusted names a proxy", "198.51.100.1:80", one("192.0.2.7, 10.0.0.2"), "198.51.100.1"},
		{"a peer next to the trusted network", "11.0.0.0:80", one("192.0.2.7"), "11.0.0.0"},
		{"a peer at the end of the trusted network", "10.255.255.255:80", one("192.0.2.7"), "192.0.2.7"},
		{"an IPv6 peer next to the trusted network", "[2001:db8:aaab::]:80", one("192.0.2.7"), "2001:db8:aaab::"},
		{"a proxy without the header", nearest, nil, "10.0.0.1"},

		// Forged entries are left of the client's own address.
		{"a client forges one entry", nearest, one("198.51.100.1, 192.0.2.7"), "192.0.2.7"},
		{"a client forges the entry of a proxy", nearest, one("198.51.100.1, 10.0.0.9, 192.0.2.7"), "192.0.2.7"},
		{"a client forges a chain longer than the proxies", nearest, one("198.51.100.1, 10.0.0.9, 10.0.0.8, 10.0.0.7, 192.0.2.7, 10.0.0.2"), "192.0.2.7"},
		{"a client forges its own address", nearest, one("192.0.2.7, 192.0.2.7"), "192.0.2.7"},
		{"a client forges the proxy's address", nearest, one("10.0.0.1, 192.0.2.7"), "192.0.2.7"},
		{"a client forges garbage", nearest, one("]]>%00, 192.0.2.7"), "192.0.2.7"},
		{"a client forges an empty entry", nearest, one(", 192.0.2.7"), "192.0.2.7"},
		{"a client opens a quote", nearest, one(`", 192.0.2.7`), "192.0.2.7"},
		{"a client opens a quote before two entries", nearest, one(`"198.51.100.1, 192.0.2.7, 10.0.0.2`), "192.0.2.7"},
		{"a client ends with a backslash", nearest, one(`\, 192.0.2.7`), "192.0.2.7"},
		{"a client forges another line", nearest, []string{"198.51.100.1, 10.0.0.9", "192.0.2.7"}, "192.0.2.7"},
		{"a client forges an empty line", nearest, []string{"", "192.0.2.7"}, "192.0.2.7"},
		{"a client forges a very long line", nearest, []string{strings.Repeat("198.51.100.1,", 100_000), "192.0.2.7"}, "192.0.2.7"},
		{"a client forges a very long entry", nearest, one(strings.Repeat("1", 1_000_000) + ", 192.0.2.7"), "192.0.2.7"},
		{"a client forges a very long entry before a proxy's", nearest, one(strings.Repeat("1", 1_000_000) + ", 192.0.2.7, 10.0.0.2"), "192.0.2.7"},

		// Several lines are one list.
		{"proxies add lines", nearest, []string{"192.0.2.7", "10.0.0.2"}, "192.0.2.7"},
		{"proxies add lines and entries", nearest, []string{"198.51.100.1", "192.0.2.7, 10.0.0.3", "10.0.0.2"}, "192.0.2.7"},
		{"the same line twice", nearest, []string{"192.0.2.7", "192.0.2.7"}, "192.0.2.7"},

		// All trusted: the left-most.
		{"a proxy calls for itself", nearest, one("10.0.0.3, 10.0.0.2"), "10.0.0.3"},
		{"a proxy names itself", nearest, one("10.0.0.1"), "10.0.0.1"},

		// What is no address ends the walk at the proxy that wrote it.
		{"an unknown client", nearest, one("unknown"), "10.0.0.1"},
		{"an unknown client of the second proxy", nearest, one("unknown, 10.0.0.2"), "10.0.0.2"},
		{"an unknown hop right of a forged entry", nearest, one("198.51.100.1, unknown"), "10.0.0.1"},
		{"a hidden client", nearest, one("_hidden"), "10.0.0.1"},
		{"an empty header", nearest, one(""), "10.0.0.1"},
		{"a header of whitespace", nearest, one(" \t"), "10.0.0.1"},
		{"a header of commas", nearest, one(",,,"), "10.0.0.1"},
		{"an empty entry right of the client", nearest, one("192.0.2.7,"), "10.0.0.1"},
		{"an empty entry between two", nearest, one("192.0.2.7,,10.0.0.2"), "10.0.0.2"},
		{"an empty line right of the client", nearest, []string{"192.0.2.7", ""}, "10.0.0.1"},
		{"the name of a host", nearest, one("example.com"), "10.0.0.1"},
		{"an entry of RFC 7239", nearest, one("for=192.0.2.7"), "10.0.0.1"},
		{"an entry in quotes", nearest, one(`"192.0.2.7"`), "10.0.0.1"},
		{"two addresses without a comma", nearest, one("192.0.2.7 10.0.0.2"), "10.0.0.1"},
		{"a network", nearest, one("192.0.2.0/24"), "10.0.0.1"},
		{"a NUL byte behind the address", nearest, one("192.0.2.7\x00"), "10.0.0.1"},
		{"a NUL byte before the address", nearest, one("\x00192.0.2.7"), "10.0.0.1"},
		{"a line feed behind the address", nearest, one("192.0.2.7\n"), "10.0.0.1"},
		{"a space of Unicode around the address", nearest, one("\u00a0192.0.2.7"), "10.0.0.1"},
		{"digits of Unicode", nearest, one("１92.0.2.7"), "10.0.0.1"},

		// Spellings of an address.
		{"a port", nearest, one("192.0.2.7:4711"), "192.0.2.7"},
		{"ports of all hops", nearest, one("192.0.2.7:4711, 10.0.0.2:80"), "192.0.2.7"},
		{"IPv6", nearest, one("2001:db8::7"), "2001:db8::7"},
		{"IPv6 in brackets", nearest, one("[2001:db8::7]"), "2001:db8::7"},
		{"IPv6 in brackets with a port", nearest, one("[2001:db8::7]:4711"), "2001:db8::7"},
		{"IPv6 in upper case with its zeros", nearest, one("2001:0DB8:0000:0:0:0:0:0007"), "2001:db8::7"},
		{"all of an IPv6 address is the answer", nearest, one("2001:db8::1:2:3:4"), "2001:db8::1:2:3:4"},
		{"IPv6 with a zone", nearest, one("fe80::7%eth0"), "fe80::7"},
		{"IPv6 with a zone, brackets and a port", nearest, one("[fe80::7%eth0]:4711"), "fe80::7"},
		{"the zone of a proxy does not hide it", nearest, one("192.0.2.7, 2001:db8:aaaa::2%eth0"), "192.0.2.7"},
		{"IPv4 mapped into IPv6", nearest, one("::ffff:192.0.2.7"), "192.0.2.7"},
		{"IPv4 mapped into IPv6 in hexadecimal", nearest, one("::ffff:c000:207"), "192.0.2.7"},
		{"IPv4 mapped into IPv6 with brackets and a port", nearest, one("[::ffff:192.0.2.7]:4711"), "192.0.2.7"},
		{"a mapped proxy is a proxy", nearest, one("192.0.2.7, ::ffff:10.0.0.2"), "192.0.2.7"},
		{"a mapped peer is a proxy", "[::ffff:10.0.0.1]:80", one("192.0.2.7"), "192.0.2.7"},
		{"tabs and spaces around the entries", nearest, one("\t 192.0.2.7 \t,\t10.0.0.2  "), "192.0.2.7"},
		{"no space behind the comma", nearest, one("192.0.2.7,10.0.0.2"), "192.0.2.7"},
		{"the highest port", nearest, one("192.0.2.7:65535"), "192.0.2.7"},

		// Spellings that programs disagree about, and unspecified addresses.
		{"octal IPv4", nearest, one("010.0.0.1"), "10.0.0.1"},
		{"octal IPv4 that would be another address", nearest, one("192.0.2.010"), "10.0.0.1"},
		{"leading zeros in IPv4", nearest, one("192.000.002.007"), "10.0.0.1"},
		{"leading zeros in mapped IPv4", nearest, one("::ffff:192.0.2.07"), "10.0.0.1"},
		{"hexadecimal IPv4", nearest, one("0xc0.0.2.7"), "10.0.0.1"},
		{"shortened IPv4", nearest, one("127.1"), "10.0.0.1"},
		{"IPv4 as one number", nearest, one("3221225991"), "10.0.0.1"},
		{"IPv4 with a fifth part", nearest, one("192.0.2.7.1"), "10.0.0.1"},
		{"IPv4 with a dot at its end", nearest, one("192.0.2.7."), "10.0.0.1"},
		{"IPv4 out of range", nearest, one("192.0.2.256"), "10.0.0.1"},
		{"IPv4 with a zone", nearest, one("192.0.2.7%eth0"), "10.0.0.1"},
		{"IPv4 in brackets", nearest, one("[192.0.2.7]:80"), "10.0.0.1"},
		{"IPv6 with an empty zone", nearest, one("fe80::7%"), "10.0.0.1"},
		{"IPv6 with five digits in a part", nearest, one("2001:00db8::7"), "10.0.0.1"},
		{"IPv6 with a ninth part", nearest, one("1:2:3:4:5:6:7:8:80"), "10.0.0.1"},
		{"a bracket that is not closed", nearest, one("[2001:db8::7"), "10.0.0.1"},
		{"a bracket that is not opened", nearest, one("2001:db8::7]"), "10.0.0.1"},
		{"brackets in brackets", nearest, one("[[2001:db8::7]]"), "10.0.0.1"},
		{"something between bracket and port", nearest, one("[2001:db8::7]x:80"), "10.0.0.1"},
		{"an empty port", nearest, one("192.0.2.7:"), "10.0.0.1"},
		{"an empty port behind brackets", nearest, one("[2001:db8::7]:"), "10.0.0.1"},
		{"a hidden port", nearest, one("192.0.2.7:_port"), "10.0.0.1"},
		{"a port that is not a number", nearest, one("192.0.2.7:http"), "10.0.0.1"},
		{"a port with a sign", nearest, one("192.0.2.7:+80"), "10.0.0.1"},
		{"a port of six digits", nearest, one("192.0.2.7:123456"), "10.0.0.1"},
		{"the unspecified IPv4 address", nearest, one("0.0.0.0"), "10.0.0.1"},
		{"the unspecified IPv6 address", nearest, one("::"), "10.0.0.1"},
		{"the unspecified address mapped into IPv6", nearest, one("::ffff:0.0.0.0"), "10.0.0.1"},
		{"a zone that is very long", nearest, one("fe80::7%" + strings.Repeat("z", 1_000)), "10.0.0.1"},
	})
}

// The number of entries and bytes that are read is bounded.
func TestResolver_Bounds(t *testing.T) {
	// hops are the entries of n proxies, 10.1.0.n on the left.
	hops := func(n int) string {
		var entries []string
		for i := n; i > 0; i-- {
			entries = append(entries, fmt.Sprintf("10.1.0.%d", i))
		}
		return strings.Join(entries, ",")
	}
	// wide is an entry of n bytes, its comma included.
	wide := func(addr string, n int) string { return strings.Repeat(" ", n-len(addr)-1) + addr + "," }
	resolve(t, clientip.Config{TrustedProxies: proxies}, []resolution{
		{"31 proxies and the client", nearest, []string{"192.0.2.7," + hops(31)}, "192.0.2.7"},
		{"32 proxies and the client", nearest, []string{"192.0.2.7," + hops(32)}, "10.1.0.32"},
		{"33 proxies and the client", nearest, []string{"192.0.2.7," + hops(33)}, "10.1.0.32"},
		{"32 proxies and the client, a line each", nearest, strings.Split("192.0.2.7,"+hops(32), ","), "10.1.0.32"},
		{"a forged chain of thousands behind 31 proxies and the client", nearest, []string{hops(200), hops(200), "192.0.2.7," + hops(31)}, "192.0.2.7"},
		{"entries of 4 KiB", nearest, []string{"198.51.100.1," + wide("192.0.2.7", 2048) + strings.TrimSuffix(wide("10.0.0.2", 2048), ",")}, "192.0.2.7"},
		{"entries of 4 KiB and a byte", nearest, []string{"198.51.100.1," + wide("192.0.2.7", 2049) + strings.TrimSuffix(wide("10.0.0.2", 2048), ",")}, "10.0.0.2"},
		{"one entry of 4 KiB", nearest, []string{strings.TrimSuffix(wide("192.0.2.7", 4096), ",")}, "192.0.2.7"},
		{"one entry of 4 KiB and a byte", nearest, []string{strings.TrimSuffix(wide("192.0.2.7", 4097), ",")}, "10.0.0.1"},
		{"entries of 4 KiB and a byte, a line each", nearest, []string{wide("192.0.2.7", 2049)[:2048], wide("10.0.0.2", 2048)[:2047]}, "10.0.0.2"},
	})
}
