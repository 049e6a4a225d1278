package config

// Auth is who may call. Where nothing is said here, whoever reaches the server
// may; with server.tls.client-ca-file, whoever has a certificate.
type Auth struct {
	// Tokens are bearer tokens that are accepted.
	Tokens []Token `key:"tokens"`
	// TokensFile has more of them: a YAML file with a list under tokens.
	TokensFile string `key:"tokens-file"`
	// Certificates are the client certificates that are accepted, of those that
	// server.tls.client-ca-file vouches for. If there are none here, no tokens
	// and no oidc, all of them are, for everything.
	Certificates []Certificate `key:"certificates"`

	OIDC OIDC `key:"oidc"`
}

// Role is what a caller may do.
type Role string

// The roles. Who may write may read; nothing else includes another.
const (
	RoleCheck Role = "check"
	RoleRead  Role = "read"
	RoleWrite Role = "write"
)

// Roles are all of them.
var Roles = []Role{RoleCheck, RoleRead, RoleWrite}

// Token is a bearer token that is accepted. It is not kept itself.
type Token struct {
	// Name is what logs and the audit call its owner.
	Name string `key:"name"`
	// SHA256 is the token's hash in 64 hexadecimal digits, as sha256sum makes
	// it.
	SHA256 Hash `key:"sha256"`
	// Roles are what it may be used for. Who may write may read.
	Roles []Role `key:"roles" oneof:"check read write"`
	// RuleSets are the ids of the rule sets that it may be used on. An empty
	// list means all.
	RuleSets []string `key:"rule-sets"`
}

// Certificate is a client certificate that is accepted.
type Certificate struct {
	// Name is what logs and the audit call its owner.
	Name string `key:"name"`
	// Subject is whom the certificate is for, letter by letter: one of its
	// alternative names (URI, DNS or email), or, only if it has no alternative
	// names at all, its common name. Of several entries that match one
	// certificate the first counts.
	Subject string `key:"subject"`
	// Roles are what it may be used for. Who may write may read.
	Roles []Role `key:"roles" oneof:"check read write"`
	// RuleSets are the ids of the rule sets that it may be used on. An empty
	// list means all.
	RuleSets []string `key:"rule-sets"`
}

// OIDC is an issuer of OpenID Connect tokens that are accepted as bearer
// tokens. They must be signed with an asymmetric algorithm by a key that the
// issuer publishes.
type OIDC struct {
	// Issuer is its URL, as it stands in its tokens. It must be https, but for
	// one on this machine. Empty means none.
	Issuer URI `key:"issuer"`
	// Audience is whom tokens must be for: the id of this server, or of its
	// clients, at the issuer.
	Audience string `key:"audience"`
	// NameClaim is the claim that names a caller in logs and the audit.
	NameClaim string `key:"name-claim"`
	// RolesClaim is the claim that lists a caller's roles. Dots lead into it, as
	// in realm_access.roles.
	RolesClaim string `key:"roles-claim"`
	// RolePrefix is what stands before check, read and write in that claim.
	// Other values of it are nothing to this server.
	RolePrefix string `key:"role-prefix"`
	// RuleSetsClaim is the claim that lists the ids of the rule sets that a
	// caller's roles are for, or "*" for all; who does not have it may nothing.
	// Empty means that roles are for all rule sets.
	RuleSetsClaim string `key:"rule-sets-claim"`
	// CAFile has the authorities that vouch for the issuer, as PEM. Empty means
	// those that this machine trusts.
	CAFile string `key:"ca-file"`
}

// Audit is the record of changes, and of attempts that were refused.
type Audit struct {
	// File is where it is kept, one JSON object in each line, beside the log. It
	// can be moved away at any time. Once it cannot be written, nothing can be
	// changed through the admin API until it can. Empty means the log alone.
	File string `key:"file"`
}
