package secret

import "strings"

// words are parts of the names of credentials.
var words = [...]string{"auth", "key", "token", "secret", "password", "passwd", "cookie", "session", "credential", "signature", "jwt"}

// IsName reports whether the name of a header, an attribute or another field suggests that
// its value is a credential. It allocates nothing.
func IsName(name string) bool {
	for _, word := range words {
		for i := 0; i+len(word) <= len(name); i++ {
			if strings.EqualFold(name[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}
