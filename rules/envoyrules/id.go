package envoyrules

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	maxID      = 64
	hashDigits = 10
)

// notID are characters that an id cannot have.
var notID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// RuleSetID returns the id of the rule set of a domain: the domain itself if it can be an
// id, as in [rules.ValidID]. Otherwise other characters become dashes, and 10
// hexadecimal digits of the domain's SHA-256 keep different domains apart: default/eg/http
// becomes default-eg-http-bca9c50fdd.
func RuleSetID(domain string) string {
	if rules.ValidID(domain) {
		return domain
	}
	return shorten(domain, domain)
}

// ruleID returns the id of the rule at a path. It is the name that envoyproxy/ratelimit has
// for it in its statistics, if that can be an id and no other path has it. elements are the
// entries as key_value, which are unique among siblings.
func ruleID(elements []string) string {
	name := strings.Join(elements, ".")
	if rules.ValidID(name) && strings.Count(name, ".") == len(elements)-1 {
		return name
	}
	return shorten(name, strings.Join(elements, "\x00"))
}

// shorten returns a readable id: the end of the name, which differs most between the paths
// of a domain, and a hash of the whole.
func shorten(name, hashed string) string {
	readable := notID.ReplaceAllString(name, "-")
	readable = strings.Trim(readable[max(len(readable)-maxID+hashDigits+1, 0):], "-")
	sum := sha256.Sum256([]byte(hashed))
	return strings.TrimPrefix(readable+"-"+hex.EncodeToString(sum[:])[:hashDigits], "-")
}
