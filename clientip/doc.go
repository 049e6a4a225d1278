// Package clientip finds the address of the client behind the proxies that
// you run, so that no caller can choose the bucket it is counted in.
//
// A [Resolver] starts with the peer, the only address that cannot be forged.
// While the current address is a trusted proxy's, it steps left in the chain that
// the proxies wrote into one header. The first address that is not trusted is the
// client. Entries further left came from the client and are never read. Without
// trusted proxies, the default, the client is the peer and no header is read.
//
// # Configurations
//
//	deployment                      TrustedProxies                     Header
//	directly on the internet        none                               none
//	one nginx                       nginx: 192.0.2.10                  X-Forwarded-For
//	nginx behind an AWS ALB         nginx, and the ALB's subnets       X-Forwarded-For
//	Cloudflare                      Cloudflare's published networks    CF-Connecting-IP
//	Cloudflare, then nginx          nginx, and Cloudflare's networks   X-Forwarded-For
//	Kubernetes ingress              the network of the ingress pods    X-Forwarded-For
//	nginx on a unix socket          none, but TrustUnixSocket          X-Forwarded-For
//
// Trust a proxy only if it writes the header itself. What it passes on
// untouched is what the client wrote:
//
//   - nginx appends with "proxy_set_header X-Forwarded-For
//     $proxy_add_x_forwarded_for" and otherwise passes the client's header on.
//   - An ALB appends, unless its xff_header_processing.mode is "preserve".
//   - A chain stays safe when a client reaches the inner proxy past the outer
//     one: it is then the first address that is not trusted. A header of a
//     single address does not, so it is for servers that only the CDN reaches.
//   - Not every CDN overwrites its header. Fastly keeps a Fastly-Client-IP that
//     the client sent until your VCL sets it to client.ip, and a CDN that was
//     not asked for True-Client-IP passes the client's on.
//   - A Kubernetes service with externalTrafficPolicy Cluster may hide the
//     client behind a node's address before any proxy sees it: use Local.
//
// List proxies, not networks that have clients too: any host in a trusted network
// can claim any address. Networks wider than /8 in IPv4 and /7 in IPv6 are
// rejected, including 0.0.0.0/0 and ::/0.
//
// # When a proxy does not name its client
//
// An entry that is no address ("unknown", "_hidden", an empty one, garbage) ends
// the search, and the result is the address of the trusted proxy that wrote it. The
// bounds of 32 entries and 4 KiB end it too. The alternatives are worse: the client
// chooses the entry to its left, and without an address the rules would decide about
// a missing identity. This way all clients that a proxy does not name share the
// bucket of that proxy.
//
// If every address is trusted, the left-most is the client: a proxy that calls
// for itself, or a service beside it.
//
// # Spelling
//
// Ports and zones are dropped, and IPv4 addresses that are mapped into IPv6
// are unmapped, in the list of proxies too. The result is the whole address. The
// engine counts IPv6 addresses by /64, unless fluxgate.WithIPv6Prefix sets
// another prefix.
package clientip
