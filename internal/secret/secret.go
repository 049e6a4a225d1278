// Package secret has the type for bytes that must not be shown, and tells by its name
// whether a value may be one.
package secret

// Hidden is shown in place of a secret.
const Hidden = "xxxxx"

// Bytes is a secret that no log, no error and no encoder shows.
type Bytes []byte

// String hides the secret from everything that prints.
func (b Bytes) String() string {
	if len(b) == 0 {
		return ""
	}
	return Hidden
}

// GoString hides it from %#v.
func (b Bytes) GoString() string { return b.String() }

// MarshalText hides it from encoders.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
