// Package keyfield names what the keys of buckets are made of.
package keyfield

import (
	"net/textproto"
	"strings"

	"github.com/fluxgate/fluxgate/internal/secret"
)

// Most bounds the parts of a composite key.
const Most = 16

// Forms are the ways to name a field, for messages.
const Forms = "ip, userId, apiKey, method, path, header:NAME, attr:NAME, descriptor, descriptor:KEY"

// DigestPrefix marks the digest of an API key or another secret, in hexadecimal digits.
const DigestPrefix = "sha256:"

// Kind is what a part of a key is made of. The numbers are part of the encoding
// that is hashed: they never change.
type Kind byte

// The kinds.
const (
	Global Kind = iota
	IP
	User
	APIKey
	Method
	Path
	Header
	Attribute
	Resolved // by the user's function
	Missing
	Descriptor
	DescriptorEntry
	Digest // of a secret, in the keys of overrides
)

// Field is one part of a key.
type Field struct {
	Kind Kind
	// Name is that of the header, canonical, or of the attribute, or the key of the entry.
	Name string
	// Lower is the header's name as gRPC and Envoy spell it.
	Lower string
	// IgnoreCase is set for the path of a rule that ignores case.
	IgnoreCase bool
}

// plain are the fields without a name.
var plain = map[string]Kind{"ip": IP, "userId": User, "apiKey": APIKey, "method": Method, "path": Path, "descriptor": Descriptor}

// Parse reads a field as rules name it. It does not check the name of a header,
// an attribute or an entry.
func Parse(s string) (f Field, ok bool) {
	if kind, ok := plain[s]; ok {
		return Field{Kind: kind}, true
	}
	form, name, _ := strings.Cut(s, ":")
	switch form {
	case "header":
		return Field{Kind: Header, Name: textproto.CanonicalMIMEHeaderKey(name), Lower: strings.ToLower(name)}, true
	case "descriptor":
		return Field{Kind: DescriptorEntry, Name: name}, true
	case "attr":
		return Field{Kind: Attribute, Name: name}, true
	}
	return Field{}, false
}

// Secret reports whether the values are credentials: API keys, and headers, attributes and entries
// of descriptors whose names suggest it.
func (f Field) Secret() bool {
	return f.Kind == APIKey || (f.Kind == Header || f.Kind == Attribute || f.Kind == DescriptorEntry) && secret.IsName(f.Name)
}

// String returns the field as rules name it.
func (f Field) String() string {
	switch f.Kind {
	case Header:
		return "header:" + f.Name
	case Attribute:
		return "attr:" + f.Name
	case DescriptorEntry:
		return "descriptor:" + f.Name
	}
	for name, kind := range plain {
		if kind == f.Kind {
			return name
		}
	}
	return ""
}
