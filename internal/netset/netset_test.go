package netset

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// A set has the addresses that its networks have one by one.
func TestSet_Has(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(random.IntN(4)), byte(random.IntN(4)), byte(random.IntN(4))})
		}
		return netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(random.IntN(4)), 15: byte(random.IntN(4))})
	}
	for range 1_000 {
		var networks []netip.Prefix
		for range random.IntN(8) {
			addr := address()
			network, err := addr.Prefix(random.IntN(addr.BitLen() + 1))
			if err != nil {
				t.Fatal(err)
			}
			networks = append(networks, network)
		}
		set := New(slices.Clone(networks))
		for range 50 {
			addr := address()
			want := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
			if got := set.Has(addr); got != want {
				t.Fatalf("%v in %v: %v, want %v", addr, networks, got, want)
			}
		}
		if set.Has(netip.Addr{}) {
			t.Fatalf("%v has the zero address", networks)
		}
	}
}

// A set has all of a network if it has it or one around it.
func TestSet_HasAll(t *testing.T) {
	set := New([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.3.4/32"), netip.MustParsePrefix("fd00::/8")})
	for network, want := range map[string]bool{
		"10.1.0.0/16": true, "10.1.2.0/24": true, "10.2.3.4/32": true, "fd12::/64": true,
		"10.0.0.0/8": false, "10.1.0.0/15": false, "10.2.3.4/31": false, "9.0.0.0/8": false, "::/0": false,
	} {
		if got := set.HasAll(netip.MustParsePrefix(network).Masked()); got != want {
			t.Errorf("%s: %v", network, got)
		}
	}
}
