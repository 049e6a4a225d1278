package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/spf13/cobra"
)

// What the environment says about servers to ask. Flags come before it.
const (
	adminVariable     = "FLUXGATE_ADMIN"      // the admin listener
	serverVariable    = "FLUXGATE_SERVER"     // the http listener
	tokenVariable     = "FLUXGATE_TOKEN"      //nolint:gosec // the name of the variable that has the token
	tokenFileVariable = "FLUXGATE_TOKEN_FILE" //nolint:gosec // likewise
	caFileVariable    = "FLUXGATE_CA_FILE"
	certFileVariable  = "FLUXGATE_CERT_FILE"
	keyFileVariable   = "FLUXGATE_KEY_FILE"
)

// clientVariables are no settings of a server.
var clientVariables = []string{
	adminVariable, serverVariable, tokenVariable, tokenFileVariable, caFileVariable, certFileVariable, keyFileVariable,
}

// remote are the flags that say where a server is, and who asks it.
type remote struct {
	server, tokenFile         string
	caFile, certFile, keyFile string

	variable string // what the address is from, if not from a flag
	token    string // from the environment, if no flag names a file
	implied  bool   // the address had no scheme, and http:// was added
}

// flags adds them. The variable of the environment, if there is one and it is
// set, comes before the default.
func (r *remote) flags(cmd *cobra.Command, what, address, variable string) {
	if set := os.Getenv(variable); set != "" {
		address, r.variable = set, variable
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.server, "server", "s", address, what)
	flags.StringVar(&r.tokenFile, "token-file", "", "file with the bearer token (default: "+tokenVariable+" is the token, or "+tokenFileVariable+" names the file); not sent off this machine unless --server begins with https:// or http://")
	flags.StringVar(&r.caFile, "ca-file", "", "file with the certificates that vouch for the server (default: "+caFileVariable+")")
	flags.StringVar(&r.certFile, "cert-file", "", "file with the certificate to show to the server (default: "+certFileVariable+")")
	flags.StringVar(&r.keyFile, "key-file", "", "file with its key (default: "+keyFileVariable+")")
}

// check refuses what contradicts itself. An address without a scheme is one of
// http, to which no token is sent off loopback.
func (r *remote) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("server") {
		r.variable = ""
	}
	if !strings.Contains(r.server, "://") {
		r.server, r.implied = "http://"+r.server, true
	}
	r.environment()
	if (r.certFile == "") != (r.keyFile == "") {
		return usage("--cert-file and --key-file go together")
	}
	if (r.caFile != "" || r.certFile != "") && !strings.HasPrefix(r.server, "https://") {
		return usage("--ca-file and --cert-file are for a server at https://, and this one is at %s", r.address())
	}
	return nil
}

// environment fills in what no flag says. The files for TLS are left out where
// the server is asked without it: they may be for another.
func (r *remote) environment() {
	if r.tokenFile == "" {
		if r.token = os.Getenv(tokenVariable); r.token == "" {
			r.tokenFile = os.Getenv(tokenFileVariable)
		}
	}
	if !strings.HasPrefix(r.server, "https://") {
		return
	}
	r.caFile = cmp.Or(r.caFile, os.Getenv(caFileVariable))
	if r.certFile == "" && r.keyFile == "" {
		r.certFile, r.keyFile = os.Getenv(certFileVariable), os.Getenv(keyFileVariable)
	}
}

// address is where the server is, and who says so if that is not seen in the
// command.
func (r *remote) address() string {
	if r.variable != "" {
		return r.server + " (" + r.variable + ")"
	}
	return r.server
}

// wrong is about an address that cannot be one. It is not shown: there may be a
// password in it.
func (r *remote) wrong(err error) error {
	if r.variable != "" {
		return usage("%s: %w", r.variable, err)
	}
	return usage("--server: %w", err)
}

// secrets are what the files hold that say who we are, and who the server is.
func (r *remote) secrets() (admin.Secret, *tls.Config, error) {
	token, err := readToken(r.tokenFile)
	if r.token != "" {
		token, err = checkToken(r.token, tokenVariable)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(token) > 0 && r.implied && !onLoopback(r.server) {
		return nil, nil, r.wrong(errors.New("the token would be sent unencrypted: begin the address with https://, or with http:// on a network that you trust"))
	}
	config, err := r.tls()
	return token, config, err
}

// onLoopback reports whether an address is on this machine.
func onLoopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && syntax.IsLoopback(u.Hostname())
}

func (r *remote) tls() (*tls.Config, error) {
	if r.caFile == "" && r.certFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.caFile != "" {
		text, err := readSmall(r.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading --ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("reading --ca-file: %s has no certificate as PEM in it", r.caFile)
		}
	}
	if r.certFile != "" {
		pair, err := tls.LoadX509KeyPair(r.certFile, r.keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading --cert-file and --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maybeTLS is about an answer as servers give it who are asked without TLS.
const maybeTLS = "does the server speak TLS? then its address begins with https://"

// adviceOnTLS is about a server that speaks TLS otherwise than we do.
func adviceOnTLS(err error) string {
	var stranger x509.UnknownAuthorityError
	switch {
	case errors.As(err, &stranger):
		return "name who vouches for the server with --ca-file"
	case strings.Contains(err.Error(), "gave HTTP response to HTTPS client"):
		return "the server does not speak TLS: its address begins with http://"
	}
	return ""
}

// readToken reads a bearer token, which is empty if no file is named.
func readToken(file string) (admin.Secret, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readSmall(file)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	return checkToken(string(text), file)
}

// checkToken is the token in a text that a file or a variable has.
func checkToken(text, from string) (admin.Secret, error) {
	token := strings.TrimSpace(text)
	if token == "" {
		return nil, fmt.Errorf("reading the token: %s is empty", from)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("reading the token: %s has more than a token in it", from)
	}
	return admin.Secret(token), nil
}

// readSmall reads a file that is expected to be small.
func readSmall(name string) ([]byte, error) {
	const most = 1 << 20
	file, err := os.Open(name) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}
