package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

// where are the flags that say where an operator works: with a server, or
// straight on what a configuration names.
type where struct {
	remote

	direct bool
	from   sources
	author string

	// place is where that is in words, once it is open: "at http://..." or
	// "straight in redis".
	place string
}

func (w *where) flags(cmd *cobra.Command) {
	w.remote.flags(cmd, "the server's admin listener; "+adminVariable+" is the default if it is set", "http://127.0.0.1:9090", adminVariable)
	cmd.Flags().BoolVar(&w.direct, "direct", false, "work straight on what --config and --set name, without a server")
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
	if w.direct {
		return nil
	}
	return w.remote.check(cmd)
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
	w.place = "at " + w.server
	token, tls, err := w.secrets()
	if err != nil {
		return nil, err
	}
	client, err := admin.NewClient(w.server, admin.ClientConfig{Token: token, TLS: tls})
	if err != nil {
		return nil, w.wrong(err)
	}
	return client, nil
}

func (w *where) openDirect(cmd *cobra.Command, on need) (closing, error) {
	c, err := w.from.load()
	if err != nil {
		return nil, err
	}
	w.place = "straight in " + c.RuleSource()
	if on == needBuckets {
		w.place = "straight in " + config.SourceRedis // where buckets are that we can reach
	}
	if on != needRules && !c.Redis.Enabled {
		const own = "with redis.enabled=false every server keeps its buckets to itself"
		if on == needBuckets {
			return nil, errors.New(own + ": ask one of them with --server")
		}
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: this is what somebody gets who has taken nothing yet\n", own)
	}
	return server.NewOperator(cmd.Context(), c, on == needRules, server.Options{Version: cmd.Root().Version})
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
