package match

import (
	"crypto/sha256"
	"net/netip"
)

// An index has the rules of each leaf. A leaf is where one or more patterns of the trie
// end.
//
// A leaf may have ten thousand rules that differ only in the tenant they are for.
// Each is filed under the values of one of its conditions, its anchor; a request
// looks up its own value of each anchor in use at the leaf.
type index struct {
	leaves  []leaf
	anchors []anchor
	values  edges // (anchor, value) → list
	lists   [][]candidate
	// descriptors has the rules that are filed under their descriptor.
	descriptors descriptorTrie
}

type leaf struct {
	open                     list // what every request has to look at
	firstAnchor, anchorCount int32
}

// A candidate is a rule that may match, as twice its position, and one more if it has
// conditions that being found did not prove. Candidates sort by position.
type candidate int32

func newCandidate(rule int32, proven bool) candidate {
	if proven {
		return candidate(2 * rule)
	}
	return candidate(2*rule + 1)
}

func (c candidate) rule() int32  { return int32(c) >> 1 }
func (c candidate) proven() bool { return c&1 == 0 }

// A list is an index into index.lists, or none. Most lists have one candidate: a number below
// none encodes it.
type list = int32

// An anchor is a condition under whose values rules are filed at one leaf.
type anchor struct {
	anchorID
	lower   string // of a header, as in named
	longest int    // of hosts, as in hostSet
	root    int32  // of descriptors
}

// anchorID identifies an anchor of a leaf.
type anchorID struct {
	kind anchorKind
	text Text
	name string // of the attribute or header
	bits int    // of the networks: they are looked up by prefix length
}

// anchorKind is the kind of condition, in the order of preference where two would
// do: an API key is last because it has to be hashed.
type anchorKind uint8

const (
	byText anchorKind = iota
	byAttribute
	byHeader
	byHost
	byIPv4
	byIPv6
	byDescriptor
	byAPIKey
)

// A query is one request while it is matched.
type query struct {
	req    *Request
	path   string     // in one of its readings
	folded string     // path in lower case; empty if no rule ignores case
	host   string     // name only, in lower case; empty if no rule asks for it
	ip     netip.Addr // plain

	digest [sha256.Size]byte // of the API key, once hashed
	hashed bool
}

// keyDigest returns the SHA-256 of the API key, which it hashes when it is first asked for.
func (q *query) keyDigest() string {
	if !q.hashed {
		var buf [512]byte // converting the string would allocate
		q.digest, q.hashed = sha256.Sum256(append(buf[:0], q.req.APIKey...)), true
	}
	return view(q.digest[:])
}

// appendCandidates appends the rules of a leaf that may match the request.
func (x *index) appendCandidates(dst []candidate, at int32, q *query) []candidate {
	p := &x.leaves[at]
	dst = x.appendList(dst, p.open)
	for id := p.firstAnchor; id < p.firstAnchor+p.anchorCount; id++ {
		dst = x.appendAnchored(dst, id, q)
	}
	return dst
}

// appendAnchored appends the rules filed under the request's own value, or values,
// of an anchor.
func (x *index) appendAnchored(dst []candidate, id int32, q *query) []candidate {
	a := &x.anchors[id]
	switch a.kind {
	case byText:
		if value := q.req.text(a.text); value != "" {
			dst = x.appendValue(dst, id, value)
		}
	case byAttribute:
		if value, given := q.req.Attributes[a.name]; given {
			dst = x.appendValue(dst, id, value)
		}
	case byHeader:
		dst = x.appendLines(dst, id, q.req.Headers[a.name])
		dst = x.appendLines(dst, id, q.req.Headers[a.lower])
	case byHost:
		dst = x.appendHost(dst, id, q.host)
	case byIPv4:
		if q.ip.Is4() {
			network, _ := q.ip.Prefix(a.bits)
			bytes := network.Addr().As4()
			dst = x.appendValue(dst, id, string(bytes[:]))
		}
	case byIPv6:
		if q.ip.Is6() {
			network, _ := q.ip.Prefix(a.bits)
			bytes := network.Addr().As16()
			dst = x.appendValue(dst, id, string(bytes[:]))
		}
	case byDescriptor:
		dst = x.appendDescriptor(dst, a.root, q.req.Descriptor)
	case byAPIKey:
		if q.req.APIKey != "" {
			dst = x.appendValue(dst, id, q.keyDigest())
		}
	}
	return dst
}

// appendLines looks up the lines of a header. The sender may repeat a line as often as
// it likes; a long list is taken once.
func (x *index) appendLines(dst []candidate, id int32, lines []string) []candidate {
	if len(lines) == 0 {
		return dst
	}
	seen := make(map[list]bool, 8)
	for _, line := range lines {
		if found := x.values.find(id, HeaderText(line)); !seen[found] {
			seen[found] = true
			dst = x.appendList(dst, found)
		}
	}
	return dst
}

// appendHost looks up a host by its name and by what follows each of its labels.
func (x *index) appendHost(dst []candidate, id int32, host string) []candidate {
	if host == "" {
		return dst
	}
	if host[0] != '.' { // else it is spelled like a suffix, but has no label in front
		dst = x.appendValue(dst, id, host)
	}
	longest := x.anchors[id].longest
	for suffix := nextSuffix(host, longest); suffix != ""; suffix = nextSuffix(suffix, longest) {
		dst = x.appendValue(dst, id, suffix)
	}
	return dst
}

func (x *index) appendValue(dst []candidate, id int32, value string) []candidate {
	return x.appendList(dst, x.values.find(id, value))
}

func (x *index) appendList(dst []candidate, l list) []candidate {
	switch {
	case l == none:
		return dst
	case l < none:
		return append(dst, candidate(none-1-l))
	}
	return append(dst, x.lists[l]...)
}
