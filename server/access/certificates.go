package access

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/server/config"
)

// certificates are the accepted client certificates.
type certificates []certificate

type certificate struct {
	subject string
	who     *Identity
}

func newCertificates(listed []config.Certificate) certificates {
	var all certificates
	for _, c := range listed {
		all = append(all, certificate{c.Subject, newIdentity("certificate:"+c.Name, c.Roles, c.RuleSets)})
	}
	return all
}

// find returns the identity for a certificate, or nil.
func (c certificates) find(leaf *x509.Certificate) *Identity {
	names := subjects(leaf)
	for i := range c {
		if slices.Contains(names, c[i].subject) {
			return c[i].who
		}
	}
	return nil
}

// verified returns the certificate of the client if it was verified and has not
// expired: a connection can outlive it.
func verified(state *tls.ConnectionState, now time.Time) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	leaf := state.VerifiedChains[0][0]
	if now.After(leaf.NotAfter) {
		return nil
	}
	return leaf
}

var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// subjects returns the names in a certificate. The common name counts only
// without alternative names of any kind: authorities that check those do not
// always check the common name.
func subjects(leaf *x509.Certificate) []string {
	var names []string
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	names = append(append(names, leaf.DNSNames...), leaf.EmailAddresses...)
	for i := range leaf.Extensions {
		if leaf.Extensions[i].Id.Equal(alternativeNames) {
			return names
		}
	}
	if leaf.Subject.CommonName != "" {
		names = append(names, leaf.Subject.CommonName)
	}
	return names
}

// described returns the name for a certificate that is not listed: the first name
// in it that can be shown, or else its fingerprint.
func described(leaf *x509.Certificate) string {
	const kind = "certificate:"
	for _, name := range subjects(leaf) {
		if isName(name) && isName(kind+name) {
			return kind + name
		}
	}
	sum := sha256.Sum256(leaf.Raw)
	return kind + "sha256:" + hex.EncodeToString(sum[:])
}
