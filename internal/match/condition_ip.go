package match

import (
	"net/netip"
	"slices"
	"sort"
)

// plainAddr returns an address as it is compared: IPv4 where it is mapped into
// IPv6, and without zone.
func plainAddr(ip netip.Addr) netip.Addr {
	return ip.Unmap().WithZone("")
}

// IPs is the condition that the address is in one of these networks. IPv4-mapped IPv6
// counts as IPv4, here and in the request, so an IPv6 network never holds an IPv4 address.
type IPs []netip.Prefix

func (networks IPs) addTo(c *compilation) {
	plain := plainPrefixes(networks)
	if len(plain) == 0 {
		return
	}
	c.ips = newAddrRanges(plain)
	values := make(choice, 0, len(plain))
	for _, p := range distinct(plain) {
		id := anchorID{kind: byIPv6, bits: p.Bits()}
		if p.Addr().Is4() {
			id.kind = byIPv4
		}
		values = append(values, anchorValue{id, string(p.Addr().AsSlice())})
	}
	c.file(values)
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

// addrRanges are the addresses of some networks, as ranges in ascending order that
// do not overlap. A list of a hundred thousand networks is searched in 17 steps.
type addrRanges []addrRange

type addrRange struct {
	first, last netip.Addr
}

func newAddrRanges(networks []netip.Prefix) addrRanges {
	sorted := slices.Clone(networks)
	// Two networks are apart or one lies in the other: sorted by address and then the
	// larger first, a network that lies in another follows it.
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if order := a.Addr().Compare(b.Addr()); order != 0 {
			return order
		}
		return a.Bits() - b.Bits()
	})
	var ranges addrRanges
	for _, p := range sorted {
		if n := len(ranges); n > 0 && p.Addr().Compare(ranges[n-1].last) <= 0 {
			continue
		}
		ranges = append(ranges, addrRange{first: p.Addr(), last: lastAddr(p)})
	}
	return ranges
}

// lastAddr returns the highest address of a masked network.
func lastAddr(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// has reports whether one of the ranges holds a plain address. IPv4 sorts before
// IPv6, so both can share one list.
func (r addrRanges) has(ip netip.Addr) bool {
	if !ip.IsValid() {
		return false
	}
	i := sort.Search(len(r), func(i int) bool { return ip.Compare(r[i].last) <= 0 })
	return i < len(r) && r[i].first.Compare(ip) <= 0
}
