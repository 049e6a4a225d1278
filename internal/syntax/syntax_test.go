package syntax_test

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/syntax"
)

// Loopback addresses and localhost are loopback hosts.
func TestIsLoopback_Hosts(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.com": false, "127.0.0.1:80": false,
	} {
		if syntax.IsLoopback(host) != want {
			t.Errorf("%q: not %t", host, want)
		}
	}
}

// Addresses and host names are hosts.
func TestIsHost_Names(t *testing.T) {
	for _, c := range []struct {
		s          string
		host, name bool
	}{
		{"example.com", true, true}, {"redis_1", true, true}, {"10.0.0.1", true, true}, {"::1", true, false}, {"fe80::1%eth0", true, false},
		{"", false, false}, {"a b", false, false}, {"a:1", false, false}, {"ä", false, false}, {"*.a", false, false},
		{strings.Repeat("a", 253), true, true}, {strings.Repeat("a", 254), false, false},
	} {
		if syntax.IsHost(c.s) != c.host || syntax.IsHostname(c.s) != c.name {
			t.Errorf("%q: host %t, name %t", c.s, syntax.IsHost(c.s), syntax.IsHostname(c.s))
		}
	}
}

// A token has letters, digits and 15 other characters. The test tries every byte.
func TestIsToken_Bytes(t *testing.T) {
	n := 0
	for c := range 256 {
		if syntax.IsToken(string([]byte{byte(c)})) {
			n++
		}
	}
	if n != 2*26+10+15 || syntax.IsToken("") || syntax.IsToken("a b") || syntax.IsToken("a:") || !syntax.IsToken("X-Api_Key") {
		t.Errorf("%d bytes can be in a token", n)
	}
}
