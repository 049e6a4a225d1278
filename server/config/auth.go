package config

// Auth lists the callers that are accepted. If it is empty, any caller is accepted;
// with server.tls.client-ca-file, any caller with a certificate.
type Auth struct {
	// Tokens are bearer tokens that are accepted.
	Tokens []Token `key:"tokens"`
	// TokensFile is a YAML file with more tokens, in a list under tokens. It is read again
	// when it changes.
	TokensFile string `key:"tokens-file"`
	// Certificates are the accepted client certificates. server.tls.client-ca-file
	// must verify them. Without certificates, tokens and oidc, every verified
	// certificate is accepted with all roles.
	Certificates []Certificate `key:"certificates"`

	OIDC OIDC `key:"oidc"`
}

// Role is a permission of a caller.
type Role string

// The roles. write includes read, check and support. support reads callers and overrides, writes
// overrides, and nothing else. With read or support, and identities, /v1/callers shows who the
// callers are.
const (
	RoleCheck      Role = "check"
	RoleRead       Role = "read"
	RoleWrite      Role = "write"
	RoleIdentities Role = "identities"
	RoleSupport    Role = "support"
)

// Roles are all roles.
var Roles = []Role{RoleCheck, RoleRead, RoleWrite, RoleIdentities, RoleSupport}

// Token is a bearer token that is accepted, known by its hash.
type Token struct {
	// Name is what logs and the audit call its owner.
	Name string `key:"name" is:"id" required:"yes" unique:"yes"`
	// SHA256 is the token's hash in 64 hexadecimal digits, as sha256sum prints it.
	SHA256 Hash `key:"sha256" is:"sha256" required:"yes" unique:"yes"`
	// Roles are the roles of its owner. write includes read, check and support. support reads
	// callers and writes overrides, and nothing else. identities shows, beside read or support,
	// who the callers are that are limited.
	Roles []Role `key:"roles" oneof:"check read write identities support" required:"yes"`
	// RuleSets are the ids of the rule sets that the roles are for. An empty list
	// means all.
	RuleSets []string `key:"rule-sets" is:"rule-set"`
}

// Certificate is a client certificate that is accepted.
type Certificate struct {
	// Name is what logs and the audit call its owner.
	Name string `key:"name" is:"id" required:"yes" unique:"yes"`
	// Subject is compared exactly with the certificate: with its alternative names
	// (URI, DNS or email), or with its common name if it has none. If several
	// entries match a certificate, the first one applies.
	Subject string `key:"subject" is:"subject" required:"yes" unique:"yes"`
	// Roles are the roles of its owner. write includes read, check and support. support reads
	// callers and writes overrides, and nothing else. identities shows, beside read or support,
	// who the callers are that are limited.
	Roles []Role `key:"roles" oneof:"check read write identities support" required:"yes"`
	// RuleSets are the ids of the rule sets that the roles are for. An empty list
	// means all.
	RuleSets []string `key:"rule-sets" is:"rule-set"`
}

// OIDC is an issuer of OpenID Connect tokens that are accepted as bearer
// tokens. They must be signed with an asymmetric algorithm by a key that the
// issuer publishes.
type OIDC struct {
	// Issuer is its URL, as in its tokens. It must be https, unless it is on this
	// machine. Empty means no issuer.
	Issuer URI `key:"issuer"`
	// Audience is the audience that tokens must have: the id of this server, or of
	// its clients, at the issuer.
	Audience string `key:"audience"`
	// NameClaim is the claim that names a caller in logs and the audit.
	NameClaim string `key:"name-claim" default:"sub" required:"yes"`
	// RolesClaim is the claim that lists a caller's roles. Dots separate nested
	// claims, as in realm_access.roles.
	RolesClaim string `key:"roles-claim" default:"roles" required:"yes"`
	// RolePrefix is the prefix of check, read, write, identities and support in that
	// claim. Other values are ignored.
	RolePrefix string `key:"role-prefix" default:"fluxgate-"`
	// RuleSetsClaim is the claim that lists the ids of the rule sets that a
	// caller's roles are for, or "*" for all. Callers without the claim are rejected.
	// Empty means that roles are for all rule sets.
	RuleSetsClaim string `key:"rule-sets-claim"`
	// CAFile is a PEM file of CA certificates that verify the issuer's certificate.
	// Empty means those of the system.
	CAFile string `key:"ca-file" is:"ca"`
}

// Audit is the log of changes and of rejected attempts.
type Audit struct {
	// File is the audit file, with one JSON object per line. It can be moved at any
	// time. While it cannot be written, the admin API rejects changes. Entries are
	// also written to the log; empty means only there.
	File string `key:"file"`
}
