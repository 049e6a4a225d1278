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

// schemes are those of the header Authorization.
var schemes = [...]string{"bearer", "basic", "digest", "negotiate"}

// IsValue reports whether a value looks like a credential whatever its name is: it begins
// with a scheme of authentication, or is a JSON Web Token. It allocates nothing.
func IsValue(value string) bool {
	for _, scheme := range schemes {
		if n := len(scheme); len(value) > n && value[n] == ' ' && strings.EqualFold(value[:n], scheme) {
			return true
		}
	}
	return strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") >= 2
}
