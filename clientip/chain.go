package clientip

import "net/netip"

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
			before, ok := r.entryAddr(trim(entry))
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

func (r *Resolver) entryAddr(entry string) (addr netip.Addr, ok bool) {
	if r.format == forwardedList {
		if entry, ok = forwardedFor(entry); !ok {
			return netip.Addr{}, false
		}
	}
	return parseAddr(entry)
}

// cutLast cuts the last entry off a list of entries with commas between them,
// and reports whether others are left. It looks at no more than the last most
// bytes and returns an entry that is too long without searching further.
//
// Commas in quoted strings do not count. A parser of RFC 7239 reads from the
// left, but there the text is the client's: a quote that it opens and never
// closes would hide the entries of the proxies. Theirs are well-formed, and both
// directions read them alike: the first quote from the right closes a string,
// quotes after a backslash are inside it, and the next one opens it.
func cutLast(list string, most int) (entry, rest string, more bool) {
	first := max(0, len(list)-most)
	quoted := false
	for i := len(list) - 1; i >= first; i-- {
		switch list[i] {
		case ',':
			if !quoted {
				return list[i+1:], list[:i], true
			}
		case '"':
			if !quoted || i == 0 || list[i-1] != '\\' {
				quoted = !quoted
			}
		}
	}
	return list, "", false
}
