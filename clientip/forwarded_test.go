package clientip_test

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// The header Forwarded is parsed as in RFC 7239.
func TestResolver_Forwarded(t *testing.T) {
	one := func(line string) []string { return []string{line} }
	resolve(t, clientip.Config{TrustedProxies: proxies, Header: clientip.Forwarded}, []resolution{
		{"one proxy names its client", nearest, one("for=192.0.2.7"), "192.0.2.7"},
		{"all parameters of the RFC", nearest, one(`For="[2001:db8:cafe::17]:4711";proto=https;by=203.0.113.43;host=example.com`), "2001:db8:cafe::17"},
		{"two proxies name each other and the client", nearest, one("for=192.0.2.7, for=10.0.0.2"), "192.0.2.7"},
		{"proxies add lines", nearest, []string{"for=192.0.2.7;proto=https", "for=10.0.0.2"}, "192.0.2.7"},
		{"a peer that is not trusted names another", "198.51.100.1:80", one("for=192.0.2.7"), "198.51.100.1"},
		{"a proxy calls for itself", nearest, one("for=10.0.0.3, for=10.0.0.2"), "10.0.0.3"},
		{"a proxy without the header", nearest, nil, "10.0.0.1"},

		{"a client forges one element", nearest, one("for=198.51.100.1, for=192.0.2.7"), "192.0.2.7"},
		{"a client forges the element of a proxy", nearest, one("for=198.51.100.1, for=10.0.0.9, for=192.0.2.7"), "192.0.2.7"},
		{"a client opens a quote", nearest, one(`for="198.51.100.1, for=192.0.2.7`), "192.0.2.7"},
		{"a client opens a quote before a quoted element", nearest, one(`for="198.51.100.1, for="192.0.2.7:80"`), "192.0.2.7"},
		{"a client opens a quote before two quoted elements", nearest, one(`for="x, for="192.0.2.7:80";host="a,b", for="10.0.0.2:80"`), "192.0.2.7"},
		{"a client opens a quote and ends with a backslash", nearest, one(`for="198.51.100.1\, for="192.0.2.7:80"`), "192.0.2.7"},
		{"a client opens a quote on another line", nearest, []string{`for="198.51.100.1`, `for="192.0.2.7:80"`}, "192.0.2.7"},
		{"a client ends with a semicolon", nearest, one("for=198.51.100.1;, for=192.0.2.7"), "192.0.2.7"},
		{"a client forges very much", nearest, one(strings.Repeat(`for="\",`, 100_000) + ", for=192.0.2.7"), "192.0.2.7"},

		{"the name in upper case", nearest, one("FOR=192.0.2.7"), "192.0.2.7"},
		{"a value in quotes", nearest, one(`for="192.0.2.7"`), "192.0.2.7"},
		{"a port", nearest, one(`for="192.0.2.7:4711"`), "192.0.2.7"},
		{"a hidden port", nearest, one(`for="192.0.2.7:_port"`), "192.0.2.7"},
		{"IPv6 in brackets", nearest, one(`for="[2001:db8::7]"`), "2001:db8::7"},
		{"IPv6 without brackets", nearest, one(`for="2001:db8::7"`), "2001:db8::7"},
		{"IPv6 without quotes", nearest, one("for=[2001:db8::7]:4711;proto=http"), "2001:db8::7"},
		{"IPv6 with a zone", nearest, one(`for="[fe80::7%eth0]:4711"`), "fe80::7"},
		{"IPv4 mapped into IPv6", nearest, one(`for="[::ffff:192.0.2.7]"`), "192.0.2.7"},
		{"a mapped proxy is a proxy", nearest, one(`for=192.0.2.7, for="[::ffff:10.0.0.2]"`), "192.0.2.7"},
		{"escaped characters in the value", nearest, one(`for="\1\9\2.0.2.7"`), "192.0.2.7"},
		{"the parameter behind others", nearest, one("proto=https;by=203.0.113.43;for=192.0.2.7"), "192.0.2.7"},
		{"an unknown parameter", nearest, one(`secret=_x;for=192.0.2.7;x-y="1"`), "192.0.2.7"},
		{"a comma in quotes", nearest, one(`for=192.0.2.7;host="a, for=198.51.100.1"`), "192.0.2.7"},
		{"a semicolon in quotes", nearest, one(`for=192.0.2.7;host="a;for=198.51.100.1"`), "192.0.2.7"},
		{"an escaped quote in quotes", nearest, one(`for=192.0.2.7;host="a\", for=198.51.100.1, \""`), "192.0.2.7"},
		{"an escaped backslash at the end of quotes", nearest, one(`for=192.0.2.7;host="a\\", for="10.0.0.2"`), "192.0.2.7"},
		{"escaped backslashes and a quote", nearest, one(`for=192.0.2.7;host="a\\\", \\", for="10.0.0.2"`), "192.0.2.7"},
		{"empty quotes of another parameter", nearest, one(`for=192.0.2.7;host=""`), "192.0.2.7"},
		{"whitespace around elements and semicolons", nearest, one("\tfor=192.0.2.7 ; proto=https\t,  for=10.0.0.2 "), "192.0.2.7"},
		{"nothing between semicolons", nearest, one(";;for=192.0.2.7;;"), "192.0.2.7"},

		{"an unknown client", nearest, one("for=unknown"), "10.0.0.1"},
		{"an unknown client of the second proxy", nearest, one("for=198.51.100.1, for=unknown, for=10.0.0.2"), "10.0.0.2"},
		{"an unknown client with a port", nearest, one(`for="unknown:80"`), "10.0.0.1"},
		{"a hidden client", nearest, one("for=_hidden"), "10.0.0.1"},
		{"an element without the parameter", nearest, one("for=192.0.2.7, proto=https;by=10.0.0.1"), "10.0.0.1"},
		{"the parameter twice", nearest, one("for=192.0.2.7;for=192.0.2.7"), "10.0.0.1"},
		{"the parameter twice in different case", nearest, one("for=192.0.2.7;proto=http;FOR=198.51.100.1"), "10.0.0.1"},
		{"the parameter twice, once unknown", nearest, one("for=unknown;for=192.0.2.7"), "10.0.0.1"},
		{"an empty header", nearest, one(""), "10.0.0.1"},
		{"an empty element right of the client", nearest, one("for=192.0.2.7, "), "10.0.0.1"},
		{"an empty line right of the client", nearest, []string{"for=192.0.2.7", ""}, "10.0.0.1"},
		{"an empty value", nearest, one("for="), "10.0.0.1"},
		{"an empty value in quotes", nearest, one(`for=""`), "10.0.0.1"},
		{"an address without a name", nearest, one("192.0.2.7"), "10.0.0.1"},
		{"a value without a name", nearest, one("=192.0.2.7"), "10.0.0.1"},
		{"a parameter without a value", nearest, one("for=192.0.2.7;secure"), "10.0.0.1"},
		{"an empty value of another parameter", nearest, one("for=192.0.2.7;host="), "10.0.0.1"},
		{"another parameter without a name", nearest, one("=a;for=192.0.2.7"), "10.0.0.1"},
		{"a space in the name of another parameter", nearest, one("for=192.0.2.7;a b=c"), "10.0.0.1"},
		{"a space in the value of another parameter", nearest, one("for=192.0.2.7;host=a b"), "10.0.0.1"},
		{"a quote in the value of another parameter", nearest, one(`for=192.0.2.7;host=a"b"`), "10.0.0.1"},
		{"whitespace before the equals sign", nearest, one("for =192.0.2.7"), "10.0.0.1"},
		{"whitespace behind the equals sign", nearest, one("for= 192.0.2.7"), "10.0.0.1"},
		{"whitespace in the quotes", nearest, one(`for=" 192.0.2.7"`), "10.0.0.1"},
		{"a quote that is not closed", nearest, one(`for="192.0.2.7`), "10.0.0.1"},
		{"a quote that is not opened", nearest, one(`for=192.0.2.7"`), "10.0.0.1"},
		{"a quote that is not opened, and a client left of it", nearest, one(`for=192.0.2.7, for=10.0.0.2"`), "10.0.0.1"},
		{"a quote whose end is escaped", nearest, one(`for="192.0.2.7\"`), "10.0.0.1"},
		{"something behind the quotes", nearest, one(`for="192.0.2.7"x`), "10.0.0.1"},
		{"a backslash at the end", nearest, one(`for="192.0.2.7\`), "10.0.0.1"},
		{"octal IPv4", nearest, one("for=010.0.0.1"), "10.0.0.1"},
		{"the unspecified address", nearest, one(`for="[::]:80"`), "10.0.0.1"},
		{"a NUL byte", nearest, one("for=192.0.2.7\x00"), "10.0.0.1"},
		{"a hidden port without a name", nearest, one(`for="192.0.2.7:_"`), "10.0.0.1"},
		{"an element longer than what is looked at", nearest, one(`for=192.0.2.7;host="` + strings.Repeat("a", 5_000) + `"`), "10.0.0.1"},
		{"an element longer than what is looked at, behind a proxy's", nearest, one(`for=192.0.2.7;host="` + strings.Repeat(`\`, 5_000) + `", for=10.0.0.2`), "10.0.0.2"},
	})
}
