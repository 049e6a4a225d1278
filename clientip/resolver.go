package clientip

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/fluxgate/fluxgate/internal/netset"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// XForwardedFor is the header that carries a chain, one entry of each proxy. Any
// other header carries a single address.
const XForwardedFor = "X-Forwarded-For"

// Config configures a [Resolver]. Its zero value trusts no proxy.
type Config struct {
	// TrustedProxies are addresses and networks, such as "192.0.2.10" and
	// "10.1.0.0/16".
	TrustedProxies []string
	// Header is the header in which the trusted proxies name the client. No other
	// header is read. Empty means X-Forwarded-For. Any other name, such as
	// CF-Connecting-IP, is a header with a single address that every trusted proxy
	// overwrites. Forwarded (RFC 7239) is neither, and is refused.
	Header string
	// TrustUnixSocket trusts peers that have no address because they came
	// through a unix socket.
	TrustUnixSocket bool
}

// Resolver finds the client's address. Its zero value trusts no proxy. It is safe
// for concurrent use.
type Resolver struct {
	trusted   netset.Set
	trustUnix bool
	// header is the canonical name and lower the one that gRPC uses.
	header, lower string
}

// New returns a resolver. The error lists all problems of the configuration.
func New(config Config) (*Resolver, error) {
	r := &Resolver{trustUnix: config.TrustUnixSocket}
	var problems []error
	for _, s := range config.TrustedProxies {
		network, err := parseNetwork(s)
		if err != nil {
			problems = append(problems, fmt.Errorf("trusted proxy %q %w", s, err))
			continue
		}
		r.trusted = append(r.trusted, network)
	}
	r.trusted = netset.New(r.trusted)
	if config.Header != "" && len(config.TrustedProxies) == 0 && !config.TrustUnixSocket {
		problems = append(problems, fmt.Errorf("header %q is never read without trusted proxies: set them", config.Header))
	}
	if config.Header != "" && !syntax.IsToken(config.Header) {
		problems = append(problems, fmt.Errorf("invalid header name %q", config.Header))
	}
	if strings.EqualFold(config.Header, "Forwarded") {
		problems = append(problems, errors.New("header Forwarded is not supported: use X-Forwarded-For"))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("client addresses: %w", errors.Join(problems...))
	}
	name := cmp.Or(config.Header, XForwardedFor)
	r.header, r.lower = textproto.CanonicalMIMEHeaderKey(name), strings.ToLower(name)
	return r, nil
}

// Addr returns the address of the client that sent a request. It is the zero Addr if
// the address is unknown: the peer has none, or the peer came through a unix socket
// that is not trusted or whose proxy did not name the client.
func (r *Resolver) Addr(req *http.Request) netip.Addr {
	return r.resolve(req.RemoteAddr, overUnix(req), req.Header)
}

// Trusts reports whether the peer that sent a request is a trusted proxy.
func (r *Resolver) Trusts(req *http.Request) bool {
	_, trusted := r.peer(req.RemoteAddr, overUnix(req))
	return trusted
}

// overUnix reports whether a request came through a unix socket. The server's
// end of the connection decides if it is known: a client can name its own end of
// a unix socket like an address.
func overUnix(req *http.Request) bool {
	if local, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return isUnixPeer(req.RemoteAddr)
}

// Resolve is [Resolver.Addr] for other transports: peer is the address, with
// or without a port, at the other end of the connection, and empty for a unix
// socket. The header's names are canonical, or all in lower case as in gRPC.
func (r *Resolver) Resolve(peer string, header http.Header) netip.Addr {
	return r.resolve(peer, isUnixPeer(peer), header)
}

// isUnixPeer reports whether a peer is a unix socket: unnamed, abstract or with a
// path.
func isUnixPeer(peer string) bool {
	return peer == "" || peer[0] == '@' || peer[0] == '/'
}

// peer returns the address of a peer, if it has one, and whether it is trusted.
func (r *Resolver) peer(name string, unix bool) (addr netip.Addr, trusted bool) {
	if unix {
		return addr, r.trustUnix
	}
	addr, _ = parseAddr(name)
	return addr, r.trusted.Has(addr)
}

func (r *Resolver) resolve(peer string, unix bool, header http.Header) netip.Addr {
	addr, trusted := r.peer(peer, unix)
	if !trusted {
		return addr
	}
	lines := header[r.header]
	if len(lines) == 0 {
		lines = header[r.lower]
	}
	if r.header == XForwardedFor {
		return r.walk(addr, lines)
	}
	// One of two lines may be the client's.
	if len(lines) == 1 {
		if client, ok := parseAddr(trim(lines[0])); ok {
			return client
		}
	}
	return addr
}
