package clientip

import (
	"errors"
	"fmt"
	"net/netip"
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
