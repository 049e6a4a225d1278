package match

import (
	"net/netip"

	"github.com/fluxgate/fluxgate/internal/netset"
)

// plainAddr returns an address as it is compared: IPv4 where it is mapped into
// IPv6, and without zone.
func plainAddr(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// IPs is the condition that the address is in one of these networks. IPv4-mapped IPv6
// counts as IPv4, here and in the request, so an IPv6 network never holds an IPv4 address.
type IPs []netip.Prefix

func (networks IPs) addTo(c *compilation) {
	plain := plainPrefixes(networks)
	if len(plain) == 0 {
		return
	}
	values := make(choice, 0, len(plain))
	for _, p := range distinct(plain) {
		id := anchorID{kind: byIPv6, bits: p.Bits()}
		if p.Addr().Is4() {
			id.kind = byIPv4
		}
		values = append(values, anchorValue{id, string(p.Addr().AsSlice())})
	}
	c.file(values)
	c.ips = netset.New(plain)
}

// plainPrefixes returns the networks of a rule as they are compared.
func plainPrefixes(prefixes []netip.Prefix) (plain []netip.Prefix) {
	for _, p := range prefixes {
		addr, bits := plainAddr(p.Addr()), p.Bits()
		if p.Addr().Is4In6() {
			bits -= 96 // in front of the IPv4 address
		}
		plain = append(plain, netip.PrefixFrom(addr, bits).Masked())
	}
	return plain
}
