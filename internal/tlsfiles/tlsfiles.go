// Package tlsfiles reads files of a bounded size, and the certificates of a client from such files.
package tlsfiles

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile is how long a file may be, in bytes.
const maxFile = 1 << 20

// ReadFile reads a file of at most 1 MiB.
func ReadFile(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("has more than %d KiB", maxFile>>10)}
	}
	return data, nil
}

// Client returns the settings of a client's TLS connections, from PEM files. Without a file of CA
// certificates those of the system verify the server. The client's own certificate is optional.
func Client(caFile, certFile, keyFile string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("reading CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading CA certificates: %s contains no PEM certificate", caFile)
		}
	}
	if certFile != "" || keyFile != "" {
		cert, certErr := ReadFile(certFile)
		key, keyErr := ReadFile(keyFile)
		pair, err := tls.X509KeyPair(cert, key)
		if err = cmp.Or(certErr, keyErr, err); err != nil {
			return nil, fmt.Errorf("reading a certificate and its key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
