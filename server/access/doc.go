// Package access authenticates the callers of the server and checks their roles.
//
// A [Guard] is built from the configuration (server.auth). A caller is identified
// by
//
//   - a bearer token whose hash is configured,
//   - an OpenID Connect token of the configured issuer, sent as a bearer token,
//   - a client certificate that the server's authorities have signed.
//
// A token takes precedence over the certificate of the connection. The result is
// an [Identity]: a name for logs, the audit and the histories of rule sets, the
// caller's roles, and the rule sets that these are for.
//
// # What is promised
//
//   - Callers that are not identified are rejected. All callers have all roles only
//     if the configuration names no callers.
//   - Tokens are compared by their hashes, in constant time.
//   - OpenID Connect tokens are verified by go-oidc: issuer, audience, times and
//     an asymmetric signature. Whatever callers send, the keys of an issuer are
//     fetched at most three times in a row and then every twelve seconds. A fetch
//     takes five seconds at most and is bounded in size. While the issuer is
//     unavailable, its last keys are used for an hour.
//   - No error, log line or answer contains a token.
//
// [Guard.Only] and [Identity.May] check roles; what a role allows is decided
// elsewhere. [Host] and [SameOrigin] protect listeners that a browser can reach.
package access
