// Package access knows who calls the server and what they may do there.
//
// A [Guard] is made from the configuration (server.auth) and asked with each
// request. A caller is known by
//
//   - a bearer token whose hash is configured,
//   - an OpenID Connect token of the configured issuer, sent in the same place,
//   - a client certificate that the server's authorities have signed.
//
// Who sends a token is who the token says, whatever certificate the connection
// has. What comes of it is an [Identity]: a name for logs, the audit and the
// histories of rule sets, the roles that it has, and the rule sets that these
// are for.
//
// # What is promised
//
//   - Who is not known may nothing. Everyone may everything only where the
//     configuration speaks of nobody.
//   - Tokens are compared by their hashes, in a time that tells nothing.
//   - OpenID Connect tokens are verified by go-oidc: issuer, audience, times and
//     an asymmetric signature. Whatever is sent, an issuer is asked for its keys
//     three times at once and then once in twelve seconds, for five seconds at
//     most, and what it says is bounded. While it is away, the keys that are
//     known serve on for an hour.
//   - No error, log or answer shows a token.
//
// What a role allows is for others to say; [Guard.Only] and [Identity.May] keep
// them to it. [Host] and
// [SameOrigin] are for listeners that a browser can reach.
package access
