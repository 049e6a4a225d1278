package clientip_test

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// A header with a single address is the client.
func TestResolver_SingleAddress(t *testing.T) {
	one := func(line string) []string { return []string{line} }
	for _, name := range []string{"CF-Connecting-IP", "True-Client-IP", "Fastly-Client-IP", "X-Real-IP"} {
		t.Run(name, func(t *testing.T) {
			resolve(t, clientip.Config{TrustedProxies: proxies, Header: name}, []resolution{
				{"names the client", nearest, one("192.0.2.7"), "192.0.2.7"},
				{"names an IPv6 client", nearest, one("2001:db8::7"), "2001:db8::7"},
				{"with a port", nearest, one("[2001:db8::7]:4711"), "2001:db8::7"},
				{"with IPv4 mapped into IPv6", nearest, one("::ffff:192.0.2.7"), "192.0.2.7"},
				{"with whitespace", nearest, one("\t192.0.2.7 "), "192.0.2.7"},
				{"with the address of a proxy", nearest, one("10.0.0.9"), "10.0.0.9"},
				{"of a peer that is not trusted", "198.51.100.1:80", one("192.0.2.7"), "198.51.100.1"},
				{"that is not there", nearest, nil, "10.0.0.1"},
				{"that is empty", nearest, one(""), "10.0.0.1"},
				{"that is there twice", nearest, []string{"192.0.2.7", "198.51.100.1"}, "10.0.0.1"},
				{"that is there twice with one address", nearest, []string{"192.0.2.7", "192.0.2.7"}, "10.0.0.1"},
				{"that is there twice and once empty", nearest, []string{"192.0.2.7", ""}, "10.0.0.1"},
				{"with a list", nearest, one("198.51.100.1, 192.0.2.7"), "10.0.0.1"},
				{"with a comma", nearest, one("192.0.2.7,"), "10.0.0.1"},
				{"with garbage", nearest, one("unknown"), "10.0.0.1"},
				{"with octal IPv4", nearest, one("192.0.2.010"), "10.0.0.1"},
				{"with the unspecified address", nearest, one("0.0.0.0"), "10.0.0.1"},
				{"with a very long value", nearest, one(strings.Repeat(" ", 100_000) + "x"), "10.0.0.1"},
			})
		})
	}
}
