package fluxgate

import (
	"net/textproto"
	"strings"
)

// maxKeyFields bounds the parts of a composite key.
const maxKeyFields = 16

const keyFieldForms = "ip, userId, apiKey, method, path, header:NAME, attr:NAME"

// fieldKind is what a part of a key is made of. The numbers stand in the
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
)

// keyField is one part of a key.
type keyField struct {
	kind fieldKind
	name string // of the header, canonical, or of the attribute
	// lower is the header's name as gRPC and Envoy spell it.
	lower string
	// ignoreCase is set for the path of a rule that ignores case.
	ignoreCase bool
}

// parseKeyField reads one entry of compositeKeyFields.
func parseKeyField(s string) (keyField, bool) {
	switch s {
	case "ip":
		return keyField{kind: fieldIP}, true
	case "userId":
		return keyField{kind: fieldUser}, true
	case "apiKey":
		return keyField{kind: fieldAPIKey}, true
	case "method":
		return keyField{kind: fieldMethod}, true
	case "path":
		return keyField{kind: fieldPath}, true
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		return keyField{kind: fieldHeader, name: textproto.CanonicalMIMEHeaderKey(name), lower: strings.ToLower(name)}, isToken(name)
	}
	if name, ok := strings.CutPrefix(s, "attr:"); ok {
		return keyField{kind: fieldAttribute, name: name}, isIdentity(name)
	}
	return keyField{}, false
}

// compileFields are the parts of a valid rule's key.
func compileFields(r *Rule) []keyField {
	switch r.Scope {
	case ScopeIP:
		return []keyField{{kind: fieldIP}}
	case ScopeUser:
		return []keyField{{kind: fieldUser}}
	case ScopeAPIKey:
		return []keyField{{kind: fieldAPIKey}}
	case ScopeComposite, ScopeCustom:
		fields := make([]keyField, len(r.KeyFields))
		for i, s := range r.KeyFields {
			fields[i], _ = parseKeyField(s)
			fields[i].ignoreCase = r.IgnoreCase
		}
		return fields
	}
	return []keyField{{kind: fieldGlobal}}
}
