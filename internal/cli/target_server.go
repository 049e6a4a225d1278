package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/syntax"
	"github.com/fluxgate/fluxgate/internal/tlsfiles"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// The environment variables that name a server. Flags override them.
const (
	adminVariable     = "FLUXGATE_ADMIN"      // the admin listener
	serverVariable    = "FLUXGATE_SERVER"     // the http listener
	tokenVariable     = "FLUXGATE_TOKEN"      //nolint:gosec // the name of the variable that has the token
	tokenFileVariable = "FLUXGATE_TOKEN_FILE" //nolint:gosec // likewise
	caFileVariable    = "FLUXGATE_CA_FILE"
	certFileVariable  = "FLUXGATE_CERT_FILE"
	keyFileVariable   = "FLUXGATE_KEY_FILE"
)

// clientVariables are not settings of a server.
var clientVariables = []string{
	adminVariable, serverVariable, tokenVariable, tokenFileVariable, caFileVariable, certFileVariable, keyFileVariable,
}

// listener is one of the two addresses of a server.
type listener struct{ setting, address, variable string }

var (
	adminListener = listener{"server.admin", "http://127.0.0.1:9090", adminVariable}
	httpListener  = listener{"server.http", "http://127.0.0.1:8080", serverVariable}
)

// serverFlags name a server and the caller's credentials.
type serverFlags struct {
	server, tokenFile         string
	caFile, certFile, keyFile string

	listener listener
	variable string // the environment variable with the address, if it is used
	token    string // from the environment, if no flag names a file
	implied  bool   // the address had no scheme, and http:// was added

	mayBeDirect bool // the command has --direct
}

// flags adds them for one listener of the server.
func (s *serverFlags) flags(cmd *cobra.Command, of listener) {
	s.listener = of
	address := of.address
	if set := os.Getenv(of.variable); set != "" {
		address, s.variable = set, of.variable
	}
	cmd.Flags().StringVarP(&s.server, "server", "s", address,
		"address of the server, its setting "+of.setting+"; "+of.variable+" is the default if it is set")
	s.credentialFlags(cmd, "--server")
}

// credentialFlags adds the flags besides the address, which another flag has.
func (s *serverFlags) credentialFlags(cmd *cobra.Command, address string) {
	flags := cmd.Flags()
	flags.StringVar(&s.tokenFile, "token-file", "", "file with the bearer token (default: "+tokenVariable+
		" is the token, or "+tokenFileVariable+" names the file); sent to another machine only if "+address+
		" begins with https:// or http://")
	flags.StringVar(&s.caFile, "ca-file", "", "file with the CA certificates to verify the server with (default: "+caFileVariable+")")
	flags.StringVar(&s.certFile, "cert-file", "", "file with the client certificate (default: "+certFileVariable+")")
	flags.StringVar(&s.keyFile, "key-file", "", "file with the key of the client certificate (default: "+keyFileVariable+")")
}

// check fills in the environment and refuses flags that contradict each other.
// An address without a scheme is http, to which no token is sent off loopback.
// TLS files of the environment are for servers at https:// only.
func (s *serverFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("server") {
		s.variable = ""
	}
	if !strings.Contains(s.server, "://") {
		s.server, s.implied = "http://"+s.server, true
	}
	if s.tokenFile == "" {
		if s.token = os.Getenv(tokenVariable); s.token == "" {
			s.tokenFile = os.Getenv(tokenFileVariable)
		}
	}
	if !strings.HasPrefix(s.server, "https://") {
		if s.caFile != "" || s.certFile != "" || s.keyFile != "" {
			return usage("--ca-file, --cert-file and --key-file need a server at https://, and this one is at %s", s.address())
		}
		return nil
	}
	s.caFile = cmp.Or(s.caFile, os.Getenv(caFileVariable))
	if s.certFile == "" && s.keyFile == "" {
		s.certFile, s.keyFile = os.Getenv(certFileVariable), os.Getenv(keyFileVariable)
	}
	if (s.certFile == "") != (s.keyFile == "") {
		return usage("--cert-file and --key-file go together")
	}
	return nil
}

// address names the server, and the variable that the address comes from.
func (s *serverFlags) address() string {
	if s.variable != "" {
		return s.server + " (" + s.variable + ")"
	}
	return s.server
}

// invalidAddress does not show the address: there may be a password in it.
func (s *serverFlags) invalidAddress(err error) error {
	return usage("%s: %w", cmp.Or(s.variable, "--server"), err)
}

var errUnencrypted = errors.New("the token would be sent unencrypted: " +
	"begin the address with https://, or with http:// on a network that you trust")

// credentials reads the token and the TLS files.
func (s *serverFlags) credentials() (admin.Secret, *tls.Config, error) {
	token, err := s.readToken()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the token: %w", err)
	}
	if u, err := url.Parse(s.server); len(token) > 0 && s.implied && (err != nil || !syntax.IsLoopback(u.Hostname())) {
		return nil, nil, s.invalidAddress(errUnencrypted)
	}
	if s.caFile == "" && s.certFile == "" {
		return token, nil, nil
	}
	tlsConfig, err := tlsfiles.Client(s.caFile, s.certFile, s.keyFile)
	return token, tlsConfig, err
}

// adminClient returns a client of the admin API.
func (s *serverFlags) adminClient() (*admin.Client, error) {
	token, tls, err := s.credentials()
	if err != nil {
		return nil, err
	}
	client, err := admin.NewClient(s.server, admin.ClientConfig{Token: token, TLS: tls})
	if err != nil {
		return nil, s.invalidAddress(err)
	}
	return client, nil
}

// readToken is empty if there is no token.
func (s *serverFlags) readToken() (admin.Secret, error) {
	text, from := s.token, tokenVariable
	switch {
	case text != "":
	case s.tokenFile == "":
		return nil, nil
	default:
		file, err := config.ReadFile(s.tokenFile)
		if err != nil {
			return nil, err
		}
		text, from = string(file), s.tokenFile
	}
	token := strings.TrimSpace(text)
	if token == "" {
		return nil, fmt.Errorf("%s is empty", from)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s must contain one token and nothing else", from)
	}
	return admin.Secret(token), nil
}

// advice is what to do about an error of the server or of the way to it.
func (s *serverFlags) advice(err error) string {
	var (
		problem     *admin.Problem      // of the admin listener
		answer      *client.StatusError // of the http listener
		unreachable *net.OpError
		status      int
		explained   bool // the answer is one of ours
	)
	if errors.As(err, &problem) {
		status, explained = problem.Status, problem.Kind != ""
	} else if errors.As(err, &answer) {
		status, explained = answer.Status, answer.Detail != ""
	}
	switch {
	case status == http.StatusUnauthorized && s.token == "" && s.tokenFile == "":
		return "the server requires authentication: use --token-file or " + tokenVariable + ", or --cert-file and --key-file"
	case status == http.StatusUnauthorized:
		return fmt.Sprintf("the server does not accept the token in %s: it may be for another server, or have expired",
			cmp.Or(s.tokenFile, tokenVariable))
	case status == http.StatusForbidden:
		return "use a token with that role: server.auth in the server's configuration lists the roles of each caller"
	case status == http.StatusNotFound:
		return fmt.Sprintf("is %s the address of %s? a server has two: %s and %s",
			s.address(), s.listener.setting, httpListener.setting, adminListener.setting)
	case status == http.StatusBadRequest && !explained && strings.HasPrefix(s.server, "http://"):
		return "does the server use TLS? then its address begins with https://"
	case status != 0, errors.Is(err, client.ErrUndecided): // the request was not sent
		return ""
	case s.listener == httpListener:
		return fmt.Sprintf("is a server running at %s? see fluxgate serve --help", s.address())
	case errors.As(err, &unreachable), errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		if s.mayBeDirect {
			return fmt.Sprintf("is a server running at %s? or work without one: --direct --config FILE", s.address())
		}
		return fmt.Sprintf("is a server running at %s? see fluxgate serve --help", s.address())
	}
	return ""
}
