// Package netset looks addresses up in sets of networks.
package netset

import (
	"net/netip"
	"slices"
	"sort"
)

// Set is networks that are disjoint and in the order of their addresses: a hundred
// thousand are searched in 17 steps. Use [New].
type Set []netip.Prefix

// New returns the set of some masked networks. It reuses their memory.
func New(networks []netip.Prefix) Set {
	// Two networks are apart or one is in the other, and then follows it.
	slices.SortFunc(networks, netip.Prefix.Compare)
	set := networks[:0]
	for _, network := range networks {
		if len(set) == 0 || !set[len(set)-1].Overlaps(network) {
			set = append(set, network)
		}
	}
	return Set(set)
}

// Has reports whether an unmapped address without a zone is in one of the networks.
func (s Set) Has(addr netip.Addr) bool {
	after := sort.Search(len(s), func(i int) bool { return addr.Less(s[i].Addr()) })
	return after > 0 && s[after-1].Contains(addr)
}

// HasAll reports whether all addresses of a masked network are in one of the networks.
func (s Set) HasAll(network netip.Prefix) bool {
	addr := network.Addr()
	after := sort.Search(len(s), func(i int) bool { return addr.Less(s[i].Addr()) })
	return after > 0 && s[after-1].Contains(addr) && s[after-1].Bits() <= network.Bits()
}
