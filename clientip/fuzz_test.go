package clientip_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// Any peer and any header: entries left of those that the proxies wrote have no
// effect.
func FuzzResolve(f *testing.F) {
	headers := []string{clientip.XForwardedFor, "Cf-Connecting-Ip"}
	for _, seed := range [][3]string{
		{"192.0.2.7:80", "", "198.51.100.1"},
		{nearest, "198.51.100.1", "192.0.2.7, 10.0.0.2"},
		{nearest, "198.51.100.1\nunknown", "2001:db8::7\n[2001:db8:aaaa::2%eth0]:80"},
		{nearest, "", "::ffff:192.0.2.7"},
		{nearest, `"`, `192.0.2.7", 10.0.0.2`},
		{"@", ",,", ",, ,"},
		{"[::ffff:10.0.0.1]:80", "\x00", "010.0.0.1"},
	} {
		for kind := range headers {
			f.Add(seed[0], seed[1], seed[2], uint8(kind))
		}
	}
	var resolvers []*clientip.Resolver
	for _, header := range headers {
		resolvers = append(resolvers, newResolver(f, clientip.Config{TrustedProxies: proxies, Header: header, TrustUnixSocket: true}))
	}
	trusted := func(addr netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(s string) bool { return netip.MustParsePrefix(s).Contains(addr) })
	}
	f.Fuzz(func(t *testing.T, peer, left, right string, kind uint8) {
		header, r := headers[int(kind)%len(headers)], resolvers[int(kind)%len(headers)]
		client := func(lines ...string) netip.Addr { return r.Resolve(peer, http.Header{header: lines}) }
		lines := strings.Split(right, "\n")
		from, got := client(), client(lines...)

		if got.Zone() != "" || got.Is4In6() || got.IsValid() && got.IsUnspecified() {
			t.Errorf("%v is not one spelling of somebody's address", got)
		}
		if from.IsValid() && !trusted(from) && got != from {
			t.Errorf("the peer %v is not trusted and named %v", from, got)
		}
		if got != from && !slices.Contains(addressesIn(right), got) {
			t.Errorf("nobody wrote %v", got)
		}
		if header == headers[1] {
			return
		}
		if entries := strings.Split(strings.Join(lines, ","), ","); client(entries...) != got {
			t.Errorf("the client is %v, and with a line for each entry %v", got, client(entries...))
		}
		if !got.IsValid() || trusted(got) {
			return
		}
		glued := slices.Concat([]string{left + "," + lines[0]}, lines[1:])
		above := slices.Concat(strings.Split(left, "\n"), lines)
		if client(glued...) != got || client(above...) != got {
			t.Errorf("what stands left of %v turned it into %v or %v", got, client(glued...), client(above...))
		}
	})
}

// addressesIn is every address in a text, in whatever it is wrapped.
func addressesIn(text string) (found []netip.Addr) {
	text = strings.ReplaceAll(text, `\`, "")
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n,;=\"[]", r) }) {
		word, _, _ = strings.Cut(word, "%")
		host, _, _ := strings.Cut(word, ":")
		for _, s := range []string{word, host} {
			if addr, err := netip.ParseAddr(s); err == nil {
				found = append(found, addr.Unmap())
			}
		}
	}
	return found
}
