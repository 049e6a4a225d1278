package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server"
	"github.com/spf13/cobra"
)

// adminVariable names the server that operators work with.
const adminVariable = "FLUXGATE_ADMIN"

// where are the flags that say where an operator works: with a server, or
// straight on what a configuration names.
type where struct {
	server, tokenFile         string
	caFile, certFile, keyFile string

	direct bool
	from   sources
	author string
}

func (w *where) flags(cmd *cobra.Command) {
	address := os.Getenv(adminVariable)
	if address == "" {
		address = "http://127.0.0.1:9090"
	}
	flags := cmd.Flags()
	flags.StringVarP(&w.server, "server", "s", address, "the server's admin listener; "+adminVariable+" is the default if it is set")
	flags.StringVar(&w.tokenFile, "token-file", "", "file with the bearer token")
	flags.StringVar(&w.caFile, "ca-file", "", "file with the certificates that vouch for the server")
	flags.StringVar(&w.certFile, "cert-file", "", "file with the certificate to show to the server")
	flags.StringVar(&w.keyFile, "key-file", "", "file with its key")
	flags.BoolVar(&w.direct, "direct", false, "work straight on what --config and --set name, without a server")
	w.from.flags(cmd)
}

// need is what a command works on.
type need int

const (
	needRules     need = iota // the rules alone
	needDecisions             // what is decided by them
	needBuckets               // what is in the store
)

// work calls do with an operator. What goes wrong comes with what to do next.
func (w *where) work(cmd *cobra.Command, on need, do func(context.Context, admin.Operator) error) (err error) {
	if err := w.check(cmd); err != nil {
		return err
	}
	operator, err := w.open(cmd, on)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Close()) }()
	return w.advise(do(cmd.Context(), operator))
}

// check refuses flags that contradict each other.
func (w *where) check(cmd *cobra.Command) error {
	remote, local := []string{"server", "token-file", "ca-file", "cert-file", "key-file"}, []string{"config", "set", "author"}
	wrong, why := local, "is for --direct"
	if w.direct {
		wrong, why = remote, "is for a server, and --direct works without one"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return usage("--%s %s", name, why)
		}
	}
	if (w.certFile == "") != (w.keyFile == "") {
		return usage("--cert-file and --key-file go together")
	}
	if (w.caFile != "" || w.certFile != "") && !strings.HasPrefix(w.server, "https://") {
		return usage("--ca-file and --cert-file are for a server at https://, and this one is at %s", w.server)
	}
	return nil
}

// closing is an operator that is closed after use.
type closing interface {
	admin.Operator
	io.Closer
}

func (w *where) open(cmd *cobra.Command, on need) (closing, error) {
	if w.direct {
		return w.openDirect(cmd, on)
	}
	token, err := readToken(w.tokenFile)
	if err != nil {
		return nil, err
	}
	config := admin.ClientConfig{Token: token}
	if config.TLS, err = w.tls(); err != nil {
		return nil, err
	}
	client, err := admin.NewClient(w.server, config)
	if err != nil {
		return nil, &usageError{err}
	}
	return client, nil
}

func (w *where) openDirect(cmd *cobra.Command, on need) (closing, error) {
	c, err := w.from.load()
	if err != nil {
		return nil, err
	}
	if on != needRules && !c.Redis.Enabled {
		const own = "with redis.enabled=false every server keeps its buckets to itself"
		if on == needBuckets {
			return nil, errors.New(own + ": ask one of them with --server")
		}
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: this is what somebody gets who has taken nothing yet\n", own)
	}
	return server.NewOperator(cmd.Context(), c, on == needRules, server.Options{Version: fullVersion()})
}

func (w *where) tls() (*tls.Config, error) {
	if w.caFile == "" && w.certFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if w.caFile != "" {
		text, err := readSmall(w.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading --ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("reading --ca-file: %s has no certificate as PEM in it", w.caFile)
		}
	}
	if w.certFile != "" {
		pair, err := tls.LoadX509KeyPair(w.certFile, w.keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading --cert-file and --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// signature is who signs a change. A server signs with who it takes us for.
func (w *where) signature() string {
	if w.author != "" {
		return w.author
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user:" + u.Username
	}
	return fmt.Sprintf("user:%d", os.Getuid())
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
	token := strings.TrimSpace(string(text))
	if token == "" {
		return nil, fmt.Errorf("reading the token: %s is empty", file)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("reading the token: %s has more than a token in it", file)
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
