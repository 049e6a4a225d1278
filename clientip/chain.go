package clientip

import (
	"net/netip"
	"strings"
)

// Bounds of the part of a chain that is read.
const (
	maxEntries = 32
	maxBytes   = 4096
)

// walk reads a chain from the right, which the nearest proxy wrote, to the first
// address that is not trusted. addr is the peer's at first, then that of the hop
// that wrote the next entry. It is the result if that entry is not an address.
func (r *Resolver) walk(addr netip.Addr, lines []string) netip.Addr {
	entries, bytes := maxEntries, maxBytes
	for i := len(lines) - 1; i >= 0; i-- {
		rest, more := lines[i], true
		for more {
			var entry string
			entry, rest, more = cutLast(rest, bytes)
			entries--
			bytes -= len(entry) + len(",")
			if entries < 0 || bytes < 0 {
				return addr
			}
			before, ok := parseAddr(trim(entry))
			if !ok {
				return addr
			}
			addr = before
			if !r.trusted.Has(addr) {
				return addr
			}
		}
	}
	return addr
}

// cutLast cuts the last entry off a list of entries with commas between them,
// and reports whether others are left. It looks at no more than the last most
// bytes and returns an entry that is too long without searching further.
func cutLast(list string, most int) (entry, rest string, more bool) {
	first := max(0, len(list)-most)
	comma := strings.LastIndexByte(list[first:], ',')
	if comma < 0 {
		return list, "", false
	}
	return list[first+comma+1:], list[:first+comma], true
}
