package config

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

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
	"node":    formOf(isHostPort, "must be of the form host:port; credentials go into redis.uri"),
	"listen":  formOf(isListen, "must be of the form host:port, or :port for all addresses"),
	"share":   formOf(isShare, "must be auto or a number from 0.000001 to 1"),
	"":        formOf(isSet, "must not be empty"),
	"pattern": formOf(isPattern, "must be a pattern such as /api/**: * is one segment, ** any number; %2A is a * itself"),
	"proxy":   formOf(isProxy, "must be the address or the network of a proxy, such as 10.0.0.0/8: the widest is /8, of IPv6 /7"),
	"http":    func(s string) error { return checkHTTP(URI(s)) },

	"secret":     readable(ReadSecret),
	"credential": readable(ReadCredential),
	"ca":         readable(ReadCA),
}

func readable[T any](read func(name string) (T, error)) func(string) error {
	return func(name string) error {
		_, err := read(name)
		return err
	}
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
func (g group) checkItems(list reflect.Value, refuse func(item int, inside, message string)) {
	taken := map[string]bool{}
	for i := range list.Len() {
		for _, s := range g {
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

// checkForm is what is wrong with a string, "" if nothing.
func (s *setting) checkForm(text string) string {
	switch {
	case strings.ContainsFunc(text, unicode.IsControl):
		return "must be one line of text"
	case len(s.oneOf) > 0:
		if !slices.Contains(s.oneOf, text) {
			return "must be one of " + strings.Join(s.oneOf, ", ")
		}
		return ""
	}
	if err := forms[s.is](text); err != nil {
		return err.Error()
	}
	return ""
}

// within reports whether a number or a time is in its range.
func (s *setting) within(v reflect.Value) bool {
	return number(v) >= s.bound(s.min) && number(v) <= s.bound(s.max)
}

func isSet(s string) bool { return s != "" }

func isSHA256(s string) bool {
	hash, err := hex.DecodeString(s)
	return err == nil && len(hash) == sha256.Size
}

// isListen reports whether a string can be the address of a listener.
func isListen(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && (host == "" || syntax.IsHost(host))
}

// isHeaderName reports whether a string can be the name of a header.
func isHeaderName(name string) bool { return len(name) <= 64 && syntax.IsToken(name) }

func isPattern(pattern string) bool { return match.CheckPattern(pattern) == nil }

func isProxy(proxy string) bool {
	_, err := clientip.New(clientip.Config{TrustedProxies: []string{proxy}})
	return err == nil
}

// unreadable is an error of a file, without its name, which may be a secret by mistake.
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

// ReadCA reads a file of CA certificates. The error is without its name.
func ReadCA(name string) (*x509.CertPool, error) {
	data, err := ReadFile(name)
	if err != nil {
		return nil, unreadable(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("contains no PEM certificate")
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
	secret, err := readLine(name, minSecret)
	return []byte(secret), err
}

// ReadCredential reads a user name or a password from its file, without a line end after it.
func ReadCredential(name string) (string, error) { return readLine(name, 1) }

// readLine reads a file without the line end after its content, which has a minimum of bytes. The
// error is without the name.
func readLine(name string, least int) (string, error) {
	data, err := ReadFile(name)
	if err != nil {
		return "", unreadable(err)
	}
	line := strings.TrimRight(string(data), "\r\n")
	if len(line) < least || len(line) > maxSecret {
		return "", fmt.Errorf("names a file with %d bytes: it must have %d to %d", len(line), least, maxSecret)
	}
	return line, nil
}
