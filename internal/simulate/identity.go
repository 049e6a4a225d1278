package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// keyFields are the parts of the key of a rule, in the spelling of compositeKeyFields.
func keyFields(r *fluxgate.Rule) []string {
	switch r.Scope {
	case fluxgate.ScopeIP:
		return []string{"ip"}
	case fluxgate.ScopeUser:
		return []string{"userId"}
	case fluxgate.ScopeAPIKey:
		return []string{"apiKey"}
	}
	return r.KeyFields
}

// identity says in words who made a request, as the rule counts it. It refers to nothing
// of the request, and has no secrets.
func identity(r *fluxgate.Rule, req *fluxgate.Request) string {
	fields := keyFields(r)
	if len(fields) == 0 {
		return "everyone"
	}
	var text []string
	missing, byIP := false, false
	for _, field := range fields {
		byIP = byIP || field == "ip"
		noun, value := fieldValue(field, req)
		if value == "" {
			missing = true
			text = append(text, "no "+noun)
			continue
		}
		text = append(text, noun+" "+printable.Line(value, maxIdentity))
	}
	if missing && !byIP && (r.OnMissingIdentity == "" || r.OnMissingIdentity == fluxgate.MissingIP) {
		if ip := network(req.IP); ip != "" {
			text = append(text, "ip "+ip)
		}
	}
	return strings.Join(text, ", ")
}

// maxIdentity is how many characters of a value are shown.
const maxIdentity = 48

// fieldValue is the value of a part of a key, and what to call it.
func fieldValue(field string, req *fluxgate.Request) (noun, value string) {
	switch field {
	case "ip":
		return "ip", network(req.IP)
	case "userId":
		return "user", req.UserID
	case "apiKey":
		return "API key", digest(req.APIKey)
	case "method":
		return "method", req.Method
	case "path":
		path, _, _ := strings.Cut(req.Path, "?")
		return "path", path
	}
	kind, name, _ := strings.Cut(field, ":")
	switch kind {
	case "header":
		noun, value = "header "+name, firstOf(req.Headers, name)
	case "attr":
		noun, value = "attribute "+name, req.Attributes[name]
	default:
		return field, "" // a log has no descriptors
	}
	if isSecret(name) {
		value = digest(value)
	}
	return noun, value
}

func firstOf(headers map[string][]string, name string) string {
	for known, values := range headers {
		if strings.EqualFold(known, name) {
			return values[0]
		}
	}
	return ""
}

// network is an address as callers are counted by it: an IPv6 address by its /64.
func network(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// digest is the beginning of the digest of a secret, as rules spell it.
func digest(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return fmt.Sprintf("sha256:%s…", hex.EncodeToString(sum[:6]))
}

// isSecret reports whether a header or an attribute may have a secret in it, by its name.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"key", "token", "auth", "secret", "cookie", "session", "password", "signature"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
