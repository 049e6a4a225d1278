package match

import "net/netip"

// Request is what is known about a call. What is unknown is left empty, and matches
// only rules that do not ask for it.
type Request struct {
	Path   string // as sent: percent-encoded; a "?" ends it
	Method string
	Host   string // with or without port
	IP     netip.Addr
	User   string
	APIKey string
	// Headers has canonical names ([textproto.CanonicalMIMEHeaderKey]), as net/http
	// builds them, or lower-case ones, as gRPC does.
	Headers    map[string][]string
	Attributes map[string]string
	// Descriptor is the request's, in order.
	Descriptor []DescriptorEntry
	Now        int64 // microseconds since 1970, for rules that end
}

// A Text is a part of a request that is one text.
type Text uint8

// The texts of a request.
const (
	User Text = iota
)

// The obstacles of conditions on texts.
const (
	ObstacleUser Obstacle = "user"
)

func (r *Request) text(t Text) string {
	if t == User {
		return r.User
	}
	return ""
}
