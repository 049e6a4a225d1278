package fluxgate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// keyPrefix is the rule's part of a key's encoding: a hash of the salt, the
// rule set and the rule.
type keyPrefix [sha256.Size]byte

func newKeyPrefix(salt []byte, ruleSet, rule string) keyPrefix {
	b := []byte("fluxgate key 1")
	b = appendBytes(b, string(salt))
	b = appendBytes(b, ruleSet)
	b = appendBytes(b, rule)
	return sha256.Sum256(b)
}

// keyer turns a request into keys.
type keyer struct {
	// ipv6Bits is how many bits of an IPv6 address count: one customer has a
	// whole network.
	ipv6Bits int
	// identity is the user's function that names the caller, or nil.
	identity func(*rules.Rule, *Request) string
}

// key encodes the request's identity under a rule and hashes it. ok is false
// if the identity is missing and the rule refuses that.
//
// The encoding is injective: the prefix has a fixed length, and every part
// after it begins with its kind and length. So two callers share a bucket only
// if their identities are equal.
func (k *keyer) key(r *compiledRule, prefix *keyPrefix, req *Request) (id store.KeyID, ok bool, err error) {
	var space [256]byte
	b := append(space[:0], prefix[:]...)
	var resolved string
	if k.identity != nil {
		if resolved, err = k.resolve(r.Rule, req); err != nil {
			return id, false, err
		}
	}
	if resolved != "" {
		b, ok = appendIdentity(b, keyfield.Resolved, resolved)
	} else {
		b, ok = k.encode(b, r, req)
	}
	sum := sha256.Sum256(b)
	return store.KeyID(sum[:len(id)]), ok, nil
}

// resolve turns a panic of the user's function into that request's error.
func (k *keyer) resolve(r *rules.Rule, req *Request) (identity string, err error) {
	defer recoverHook(&err)
	return k.identity(r, req), nil
}

func (k *keyer) encode(b []byte, r *compiledRule, req *Request) (encoded []byte, ok bool) {
	missing := false
	for _, f := range r.fields {
		var there bool
		if b, there = k.appendField(b, f, req); !there {
			b = append(b, byte(keyfield.Missing), byte(f.Kind))
			missing = true
		}
	}
	if missing && r.byAddress { // without an address all share one bucket
		b, _ = k.appendIP(b, req.IP)
	}
	return b, !missing || r.OnMissingIdentity != rules.MissingRefuse
}

// appendField appends one part, or reports that the request does not have it.
func (k *keyer) appendField(b []byte, f keyfield.Field, req *Request) (encoded []byte, there bool) {
	switch f.Kind {
	case keyfield.Global:
		return append(b, byte(f.Kind)), true
	case keyfield.IP:
		return k.appendIP(b, req.IP)
	case keyfield.User:
		return appendIdentity(b, f.Kind, req.UserID)
	case keyfield.APIKey:
		return appendIdentity(b, f.Kind, req.APIKey)
	case keyfield.Method:
		return appendIdentity(b, f.Kind, methodClass(req.Method))
	case keyfield.Path:
		if strings.HasPrefix(req.Path, "//") {
			return b, false // parsers disagree on where it begins: no key is safe
		}
		return appendIdentity(b, f.Kind, cleanPath(f, req.Path))
	case keyfield.Attribute:
		value := req.Attributes[f.Name]
		if value == "" {
			return b, false
		}
		b = append(b, byte(f.Kind))
		return appendBytes(appendBytes(b, f.Name), value), true
	case keyfield.Header:
		value := headerOf(f, req)
		if value == "" {
			return b, false
		}
		b = append(b, byte(f.Kind))
		return appendBytes(appendBytes(b, f.Name), value), true
	case keyfield.Descriptor:
		return appendDescriptor(b, req.Descriptor)
	case keyfield.DescriptorEntry:
		for i := range req.Descriptor {
			if e := &req.Descriptor[i]; e.Key == f.Name {
				b = append(b, byte(f.Kind))
				return appendBytes(appendBytes(b, e.Key), e.Value), true
			}
		}
	}
	return b, false
}

// headerOf returns the value of a header as a key has it, or an empty string. With several
// lines it is unknown which one counts, and each added line would be a new bucket.
func headerOf(f keyfield.Field, req *Request) string {
	values := req.Headers[f.Name]
	if len(values) == 0 {
		values = req.Headers[f.Lower]
	}
	if len(values) != 1 {
		return ""
	}
	return match.HeaderText(values[0])
}

// cleanPath is a path as a key has it.
func cleanPath(f keyfield.Field, path string) string {
	if path != "" && !match.IsClean(path) {
		var space [256]byte
		path = string(match.CleanPath(space[:0], path))
	}
	if f.IgnoreCase {
		path = strings.ToLower(path)
	}
	return path
}

// appendDescriptor appends all entries, after their number: where they end must not
// depend on what follows.
func appendDescriptor(b []byte, entries []DescriptorEntry) (encoded []byte, there bool) {
	if len(entries) == 0 {
		return b, false
	}
	b = binary.AppendUvarint(append(b, byte(keyfield.Descriptor)), uint64(len(entries)))
	for i := range entries {
		b = appendBytes(appendBytes(b, entries[i].Key), entries[i].Value)
	}
	return b, true
}

func (k *keyer) appendIP(b []byte, ip netip.Addr) (encoded []byte, there bool) {
	if !ip.IsValid() {
		return b, false
	}
	ip = ip.Unmap().WithZone("")
	b = append(b, byte(keyfield.IP))
	if ip.Is4() {
		v4 := ip.As4()
		b = append(b, byte(len(v4)))
		return append(b, v4[:]...), true
	}
	if prefix, err := ip.Prefix(k.ipv6Bits); err == nil {
		ip = prefix.Addr()
	}
	v6 := ip.As16()
	b = append(b, byte(len(v6)))
	return append(b, v6[:]...), true
}

func appendIdentity(b []byte, kind keyfield.Kind, value string) (encoded []byte, there bool) {
	if value == "" {
		return b, false
	}
	return appendBytes(append(b, byte(kind)), value), true
}

func appendBytes(b []byte, value string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// methodClass is the method, upper-case, or "other": a caller must not get a
// bucket for each invented method. HEAD is GET: routers answer both with one
// handler.
func methodClass(method string) string {
	switch method {
	case "HEAD":
		return "GET"
	case "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return method
	case "":
		return ""
	}
	if upper := strings.ToUpper(method); upper != method {
		return methodClass(upper)
	}
	return "other"
}

func newHolder() (id store.HolderID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
