package clientip_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// An invalid configuration is refused with a reason.
func TestNew_InvalidConfig(t *testing.T) {
	trust := func(proxies ...string) clientip.Config { return clientip.Config{TrustedProxies: proxies} }
	for _, c := range []struct {
		name   string
		config clientip.Config
		says   string
	}{
		{"an empty proxy", trust(""), `trusted proxy "" is neither an address`},
		{"the name of a host", trust("proxy.example.com"), "neither an address such as"},
		{"an address with a port", trust("10.0.0.1:80"), "neither an address such as"},
		{"an address with whitespace", trust(" 10.0.0.1"), "neither an address such as"},
		{"an octal address", trust("010.0.0.1"), "neither an address such as"},
		{"a list in one string", trust("10.0.0.1,10.0.0.2"), "neither an address such as"},
		{"a network with too many bits", trust("10.0.0.0/33"), "is not a network such as"},
		{"a network with a mask", trust("10.0.0.0/255.0.0.0"), "is not a network such as"},
		{"a network without its size", trust("10.0.0.0/"), "is not a network such as"},
		{"an address with a zone", trust("fe80::1%eth0"), "has a zone"},
		{"a network with a zone", trust("fe80::%eth0/64"), "has a zone"},
		{"an address with the size of a network", trust("10.1.2.3/16"), "write 10.1.0.0/16, or 10.1.2.3 for"},
		{"a mapped address with the size of a network", trust("::ffff:10.1.2.3/112"), "write 10.1.0.0/16, or 10.1.2.3 for"},
		{"all of IPv4", trust("0.0.0.0/0"), "is too wide: the widest network of proxies is /8"},
		{"half of IPv4", trust("128.0.0.0/1"), "is too wide"},
		{"an address with the size of all of IPv4", trust("10.0.0.1/0"), "is too wide"},
		{"all of IPv6", trust("::/0"), "is too wide: the widest network of proxies is /7"},
		{"all of IPv6 that is given to anybody", trust("2000::/3"), "is too wide"},
		{"all of IPv4 mapped into IPv6", trust("::ffff:0.0.0.0/96"), "is too wide"},
		{"more than all of IPv4 mapped into IPv6", trust("::ffff:0.0.0.0/95"), "write the IPv4 network"},
		{"the unspecified address", trust("0.0.0.0"), "is not an address of a host"},
		{"the unspecified IPv6 address", trust("::"), "is not an address of a host"},
		{"a header that nobody may write", clientip.Config{Header: "X-Forwarded-For"}, `header "X-Forwarded-For" is never read`},
		{"a header with a space", clientip.Config{TrustedProxies: proxies, Header: "X Real IP"}, `invalid header name "X Real IP"`},
		{"a header with a colon", clientip.Config{TrustedProxies: proxies, Header: "X-Real-IP:"}, "invalid header name"},
		{"a header that is not ASCII", clientip.Config{TrustedProxies: proxies, Header: "X-Réal-IP"}, "invalid header name"},
		{"the header of RFC 7239", clientip.Config{TrustedProxies: proxies, Header: "forwarded"}, "header Forwarded is not supported: use X-Forwarded-For"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := clientip.New(c.config)
			if err == nil || r != nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %q, not %q", err, c.says)
			}
		})
	}
	t.Run("all problems at once", func(t *testing.T) {
		_, err := clientip.New(clientip.Config{TrustedProxies: []string{"one", "10.0.0.1", "0.0.0.0/0"}, Header: "a b"})
		for _, part := range []string{`"one"`, `"0.0.0.0/0"`, `"a b"`} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not speak of %s", err, part)
			}
		}
	})
}

// Trusted proxies are addresses and networks.
func TestResolver_Trusted(t *testing.T) {
	for _, c := range []struct {
		name       string
		proxies    []string
		in, others []string
	}{
		{"one address", []string{"192.0.2.10"}, []string{"192.0.2.10", "::ffff:192.0.2.10"}, []string{"192.0.2.9", "192.0.2.11", "::192.0.2.10"}},
		{"one IPv6 address", []string{"::1"}, []string{"::1", "[::1%lo]:80"}, []string{"::2", "127.0.0.1"}},
		{"a network", []string{"10.1.0.0/16"}, []string{"10.1.0.0", "10.1.255.255", "::ffff:10.1.0.1"}, []string{"10.0.255.255", "10.2.0.0"}},
		{"the widest networks", []string{"10.0.0.0/8", "fc00::/7"}, []string{"10.255.0.1", "fdff::1", "fc00::1"}, []string{"11.0.0.0", "fe00::1"}},
		{"a mapped network", []string{"::ffff:10.0.0.0/104"}, []string{"10.0.0.1", "::ffff:10.255.0.1"}, []string{"11.0.0.1", "::10.0.0.1", "9.255.255.255"}},
		{"a mapped address", []string{"::ffff:10.0.0.1"}, []string{"10.0.0.1"}, []string{"10.0.0.2"}},
		{
			"networks in networks, in any order", []string{"10.1.2.0/24", "10.0.0.0/8", "10.1.2.3", "192.0.2.10", "10.0.0.0/8", "172.16.0.0/12"},
			[]string{"10.0.0.1", "10.1.2.3", "10.1.2.4", "10.1.3.0", "10.200.0.1", "192.0.2.10", "172.31.0.1"}, []string{"192.0.2.11", "11.0.0.1", "172.32.0.0"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResolver(t, clientip.Config{TrustedProxies: c.proxies})
			header := http.Header{clientip.XForwardedFor: {"203.0.113.99"}}
			client := address(t, "203.0.113.99")
			for _, peer := range c.in {
				if got := r.Resolve(peer, header); got != client {
					t.Errorf("%s is not trusted", peer)
				}
			}
			for _, peer := range c.others {
				if got := r.Resolve(peer, header); got == client || !got.IsValid() {
					t.Errorf("%s resolves to %v", peer, got)
				}
			}
		})
	}
}

// A long list of networks is searched correctly.
func TestResolver_LongList(t *testing.T) {
	var list []string
	for i := 510; i >= 0; i -= 2 {
		list = append(list, fmt.Sprintf("172.%d.%d.0/24", 16+i/256, i%256), fmt.Sprintf("2001:db8:%x::/48", i))
	}
	r := newResolver(t, clientip.Config{TrustedProxies: list})
	header := http.Header{clientip.XForwardedFor: {"203.0.113.99"}}
	client := address(t, "203.0.113.99")
	for i := range 512 {
		for _, peer := range []string{
			fmt.Sprintf("172.%d.%d.0", 16+i/256, i%256), fmt.Sprintf("172.%d.%d.255", 16+i/256, i%256),
			fmt.Sprintf("2001:db8:%x::", i), fmt.Sprintf("2001:db8:%x:ffff::1", i),
		} {
			if trusted := r.Resolve(peer, header) == client; trusted != (i%2 == 0) {
				t.Errorf("%s is trusted: %t", peer, trusted)
			}
		}
	}
}
