package config

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/rules"
)

// idForm is what [rules.ValidID] accepts.
const idForm = "1 to 64 letters, digits, dots, dashes and underscores"

// forms check strings of settings with the tag is.
var forms = map[string]func(string) error{
	"id":       formOf(rules.ValidID, "must have "+idForm),
	"rule-set": formOf(rules.ValidID, "must be the id of a rule set: "+idForm),
	"header":   formOf(isHeaderName, "must be the name of a header, such as X-Forwarded-Host"),
	"host":     formOf(syntax.IsHost, "must be a name without a port, such as fluxgate.example.com"),
	"sha256": formOf(isSHA256,
		"must be the SHA-256 of the token in 64 hexadecimal digits, as printf %s \"$TOKEN\" | sha256sum prints it"),
	"subject": formOf(isSet, "must be the subject of the certificate, such as spiffe://example.com/ops or ops.example.com"),
	"share":   formOf(isShare, "must be auto or a number from 0.000001 to 1"),
	"":        formOf(isSet, "must not be empty"),
	"http":    func(s string) error { return checkHTTP(URI(s)) },
	"pattern": checkPattern,
	"proxy":   checkProxy,
	"secret": func(name string) error {
		_, err := ReadSecret(name)
		return err
	},
	"credential": func(name string) error {
		_, err := ReadCredential(name)
		return err
	},
	"ca": checkCAFile,
}

func formOf(is func(string) bool, message string) func(string) error {
	return func(s string) error {
		if is(s) {
			return nil
		}
		return errors.New(message)
	}
}

// check checks a value against the tags of its field. Places begin inside of the
// value.
func (s *setting) check(v reflect.Value, refuse func(inside, message string)) {
	switch {
	case s.inner != nil:
		s.inner.checkItems(v, func(item int, inside, message string) { refuse(fmt.Sprintf("[%d]%s", item, inside), message) })
	case v.Kind() == reflect.Slice:
		if s.required && v.Len() == 0 {
			refuse("", "must have at least one of "+strings.Join(s.oneOf, ", "))
		}
		for i := range v.Len() {
			if message := s.checkForm(v.Index(i).String()); message != "" {
				refuse(fmt.Sprintf("[%d]", i), message)
			}
		}
	case v.Kind() == reflect.String && (v.String() != "" || s.required || len(s.oneOf) > 0):
		if message := s.checkForm(v.String()); message != "" {
			refuse("", message)
		}
	case s.min != "" && !s.within(v):
		refuse("", fmt.Sprintf("must be %s to %s, not %v", s.min, s.max, s.shown(v)))
	}
}

// checkItems checks a list of groups, with the item of each problem.
func (g *group) checkItems(list reflect.Value, refuse func(item int, inside, message string)) {
	taken := map[string]bool{}
	for i := range list.Len() {
		for _, s := range g.settings {
			v := list.Index(i).FieldByIndex(s.index)
			s.check(v, func(inside, message string) { refuse(i, "."+s.name+inside, message) })
			if s.unique {
				value := s.name + "=" + v.String()
				if s.is == "sha256" {
					value = strings.ToLower(value)
				}
				if taken[value] {
					refuse(i, "."+s.name, "is already used by another entry")
				}
				taken[value] = true
			}
		}
	}
}

// checkForm is what is wrong with a string that the tags allow, "" if nothing.
func (s *setting) checkForm(text string) string {
	if message := s.checkString(text); message != "" || len(s.oneOf) > 0 {
		return message
	}
	if err := forms[s.is](text); err != nil {
		return err.Error()
	}
	return ""
}

// within reports whether a number or a time is in its range.
func (s *setting) within(v reflect.Value) bool { return number(v) >= s.least && number(v) <= s.most }

func isSet(s string) bool { return s != "" }

func isSHA256(s string) bool {
	hash, err := hex.DecodeString(s)
	return err == nil && len(hash) == sha256.Size
}

// isHeaderName reports whether a string can be the name of a header.
func isHeaderName(name string) bool { return len(name) <= 64 && syntax.IsToken(name) }

func checkPattern(pattern string) error {
	_, err := match.CompilePaths([]string{pattern})
	return hideSecret(pattern, err)
}

func checkProxy(proxy string) error {
	_, err := clientip.New(clientip.Config{TrustedProxies: []string{proxy}})
	if err != nil {
		if _, after, ok := strings.Cut(err.Error(), ": "); ok { // without what was being done
			err = errors.New(after)
		}
	}
	return hideSecret(proxy, err)
}

// hideSecret is an error that quotes a value, unless that may hold a secret.
func hideSecret(value string, err error) error {
	if err != nil && mayHoldSecret(value) {
		return errors.New("is not valid (not shown: it may hold a secret)")
	}
	return err
}

// checkReadable refuses a file that cannot be read. Its name is not repeated: it
// may be the secret itself by mistake.
func checkReadable(name string) error {
	_, err := ReadFile(name)
	return unreadable(err)
}

// unreadable is an error of a file, without its name.
func unreadable(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		err = fmt.Errorf("names a file that cannot be read: %w", err)
	}
	return err
}

func checkCAFile(name string) error {
	if err := checkReadable(name); err != nil {
		return err
	}
	if _, err := ReadCA(name); err != nil {
		return errors.New("contains no PEM certificate")
	}
	return nil
}

// ReadCA reads a file of CA certificates.
func ReadCA(name string) (*x509.CertPool, error) {
	data, err := ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s contains no PEM certificate", name)
	}
	return pool, nil
}

// Bounds of a secret, in bytes. A short one can be guessed from its output.
const (
	minSecret = 16
	maxSecret = 64 << 10
)

// ReadSecret reads a secret from its file, without a line end after it.
// If no file is named, the secret is empty.
func ReadSecret(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	secret, err := readLine(name)
	if err != nil {
		return nil, err
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("names a file with %d bytes: a secret has %d to %d; openssl rand -hex 32 prints one",
			len(secret), minSecret, maxSecret)
	}
	return []byte(secret), nil
}

// ReadCredential reads a user name or a password from its file, without a line end after it.
func ReadCredential(name string) (string, error) {
	value, err := readLine(name)
	if err == nil && (value == "" || len(value) > maxSecret) {
		err = fmt.Errorf("names a file with %d bytes: a user name or a password has 1 to %d", len(value), maxSecret)
	}
	return value, err
}

// readLine reads a file without the line end after its content. The error is without the name.
func readLine(name string) (string, error) {
	data, err := ReadFile(name)
	return strings.TrimRight(string(data), "\r\n"), unreadable(err)
}
