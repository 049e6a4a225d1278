package clientip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The widest networks that can be trusted: 10.0.0.0/8 and fc00::/7 are the widest
// of one owner. Wider ones contain other people's clients.
const (
	widestIPv4 = 8
	widestIPv6 = 7
)

// mappedBits is where the IPv4 address begins in an IPv6 one it is mapped to.
const mappedBits = 96

// parseNetwork reads a trusted proxy, an address or a network.
func parseNetwork(s string) (netip.Prefix, error) {
	network, err := parsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	if addr := network.Addr(); addr.Is4In6() {
		if network.Bits() < mappedBits {
			return netip.Prefix{}, errors.New("contains all of IPv4: write the IPv4 network")
		}
		network = netip.PrefixFrom(addr.Unmap(), network.Bits()-mappedBits)
	}
	widest := widestIPv6
	if network.Addr().Is4() {
		widest = widestIPv4
	}
	if network.Bits() < widest {
		return netip.Prefix{}, fmt.Errorf("is too wide: the widest network of proxies is /%d", widest)
	}
	if network != network.Masked() {
		return netip.Prefix{}, fmt.Errorf("has bits beyond its prefix: write %v, or %v for the one address",
			network.Masked(), network.Addr())
	}
	if network.IsSingleIP() && network.Addr().IsUnspecified() {
		return netip.Prefix{}, errors.New("is not an address of a host")
	}
	return network, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "%") {
		return netip.Prefix{}, errors.New("has a zone, which is ignored: remove it")
	}
	if strings.Contains(s, "/") {
		network, err := netip.ParsePrefix(s)
		if err != nil {
			return netip.Prefix{}, errors.New("is not a network such as 10.1.0.0/16 or 2001:db8::/32")
		}
		return network, nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, errors.New("is neither an address such as 192.0.2.10 nor a network such as 10.1.0.0/16")
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// networks are disjoint and in order of their addresses: the published list of
// a CDN has hundreds, and every hop of a chain is looked up.
type networks []netip.Prefix

// disjoint is the same networks, sorted and without those inside others.
func (n networks) disjoint() networks {
	slices.SortFunc(n, netip.Prefix.Compare)
	kept := n[:0]
	for _, network := range n {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(network) {
			kept = append(kept, network)
		}
	}
	return kept
}

// contain reports whether an unmapped address without a zone is in one of the
// networks.
func (n networks) contain(addr netip.Addr) bool {
	i, found := slices.BinarySearchFunc(n, addr, func(network netip.Prefix, addr netip.Addr) int {
		return network.Addr().Compare(addr)
	})
	return found || i > 0 && n[i-1].Contains(addr)
}
