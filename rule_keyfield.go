package fluxgate

import (
	"net/textproto"
	"strings"
)

// maxKeyFields bounds the parts of a composite key.
const maxKeyFields = 16

const keyFieldForms = "ip, userId, apiKey, method, path, header:NAME, attr:NAME, descriptor, descriptor:KEY"

// fieldKind is what a part of a key is made of. The numbers are part of the
// encoding that is hashed: they never change.
type fieldKind byte

const (
	fieldGlobal fieldKind = iota
	fieldIP
	fieldUser
	fieldAPIKey
	fieldMethod
	fieldPath
	fieldHeader
	fieldAttribute
	fieldResolved // by the user's function
	fieldMissing
	fieldDescriptor
	fieldDescriptorEntry
)

// keyField is one part of a key.
type keyField struct {
	kind fieldKind
	name string // of the header, canonical, or of the attribute; or the key of the entry
	// lower is the header's name as gRPC and Envoy spell it.
	lower string
	// ignoreCase is set for the path of a rule that ignores case.
	ignoreCase bool
}

// plainFields are the entries of compositeKeyFields without a name.
var plainFields = map[string]fieldKind{
	"ip": fieldIP, "userId": fieldUser, "apiKey": fieldAPIKey, "method": fieldMethod, "path": fieldPath, "descriptor": fieldDescriptor,
}

// parseKeyField reads one entry of compositeKeyFields.
func parseKeyField(s string) (keyField, bool) {
	if kind, ok := plainFields[s]; ok {
		return keyField{kind: kind}, true
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		return keyField{kind: fieldHeader, name: textproto.CanonicalMIMEHeaderKey(name), lower: strings.ToLower(name)}, isToken(name)
	}
	if key, ok := strings.CutPrefix(s, "descriptor:"); ok {
		return keyField{kind: fieldDescriptorEntry, name: key}, isIdentity(key)
	}
	name, ok := strings.CutPrefix(s, "attr:")
	return keyField{kind: fieldAttribute, name: name}, ok && isIdentity(name)
}

// scopeFields are the fields of scopes that have one.
var scopeFields = map[Scope]fieldKind{ScopeGlobal: fieldGlobal, ScopeIP: fieldIP, ScopeUser: fieldUser, ScopeAPIKey: fieldAPIKey}

// compileFields are the parts of a valid rule's key.
func compileFields(r *Rule) []keyField {
	if kind, ok := scopeFields[r.Scope]; ok {
		return []keyField{{kind: kind}}
	}
	fields := make([]keyField, len(r.KeyFields))
	for i, s := range r.KeyFields {
		fields[i], _ = parseKeyField(s)
		fields[i].ignoreCase = r.IgnoreCase
	}
	return fields
}
