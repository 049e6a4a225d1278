package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server/backend"
)

// listeners tries to listen on the addresses of the server.
func (d *diagnosis) listeners(ctx context.Context) {
	for _, l := range []struct {
		setting, addr string
		isServer      func(ctx context.Context, setting, addr string) bool
	}{
		{"server.http", d.config.Server.HTTP, d.isServer},
		{"server.grpc", d.config.Server.GRPC, d.isGRPC},
		{"server.admin", d.config.Server.Admin, d.isServer},
		{"server.metrics", d.config.Server.Metrics, d.isServer},
	} {
		if l.addr == "" {
			continue
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", l.addr)
		switch {
		case err == nil:
			_ = listener.Close()
			d.add(Good, "listeners", "", "%s: %s is free", l.setting, l.addr)
		case errors.Is(err, syscall.EADDRINUSE) && l.isServer(ctx, l.setting, reachable(l.addr)):
			d.add(Good, "listeners", "", "%s: a fluxgate server is listening on %s", l.setting, l.addr)
		case errors.Is(err, syscall.EADDRINUSE):
			d.add(Wrong, "listeners", "stop the process that uses it, or change "+l.setting,
				"%s: %s is in use by another process", l.setting, l.addr)
		default:
			d.add(Wrong, "listeners", "correct "+l.setting, "%s: cannot listen on %s: %v", l.setting, l.addr, err)
		}
	}
}

// reachable returns an address at which a listener of this machine answers.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// anyServer accepts all certificates: nothing secret is sent, and the answer is not relied
// on.
var anyServer = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above

func (d *diagnosis) isTLS(setting string) bool {
	t := &d.config.Server.TLS
	return t.CertFile != "" && slices.Contains(t.Listeners, strings.TrimPrefix(setting, "server."))
}

// isGRPC reports whether a server of gRPC with its health service answers at an address.
func (d *diagnosis) isGRPC(ctx context.Context, setting, addr string) bool {
	creds := insecure.NewCredentials()
	if d.isTLS(setting) {
		creds = credentials.NewTLS(anyServer)
	}
	conn, err := grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err == nil
}

// isServer reports whether a fluxgate server answers at an address.
func (d *diagnosis) isServer(ctx context.Context, setting, addr string) bool {
	scheme := "http://"
	if d.isTLS(setting) {
		scheme = "https://"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: anyServer}
	answer, err := transport.RoundTrip(q)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	return err == nil && string(text) == "alive\n"
}

func (d *diagnosis) waiting(set *rules.Set) {
	if ids := backend.NeverWait(d.config, set); ids != "" {
		d.add(Watch, "waiting", "set wait-for-refill.enabled, or remove WAIT_FOR_REFILL from the rules",
			"rule set %q: requests over the limit of %s are rejected at once: WAIT_FOR_REFILL is off", set.ID(), ids)
	}
}

// forgotten is how long after its end a rule may still be there.
const forgotten = 7 * 24 * time.Hour

func (d *diagnosis) ended(set *rules.Set) {
	for r := range set.Rules() {
		if !r.Disabled && !r.Until.IsZero() && time.Since(r.Until) > forgotten {
			d.add(Watch, "ended", "remove the rule", "rule %q of rule set %q has ended at %s", r.ID, set.ID(), r.Until.Format(time.RFC3339))
		}
	}
}

// sets checks the rule sets other than the default one, and edits that a server
// would refuse. Files are valid as a whole or not at all.
func (d *diagnosis) sets(ctx context.Context, source rules.Source, first string) {
	ids := []string{first}
	if editor, ok := source.(rules.Editor); ok {
		page, err := editor.List(ctx, "", rules.MaxPage)
		if err != nil {
			d.add(Wrong, "rules", "check that the rule source is available", "cannot list the rule sets: %v", err)
		}
		for i := range page {
			if page[i].RuleSetID != first {
				ids = append(ids, page[i].RuleSetID)
			}
		}
	}
	if files, ok := source.(*filerules.Source); ok {
		if all, err := files.IDs(ctx); err == nil { // else loading the default reports the error
			ids = append(ids, all...)
		}
	}
	for _, id := range ids {
		if id != first {
			d.set(ctx, source, id)
		}
		d.overrides(ctx, source, id)
		mongo, ok := source.(*mongorules.Source)
		if !ok {
			continue
		}
		if err := mongo.Examine(ctx, id); err != nil {
			d.add(Wrong, "rules", "correct the documents; the last valid revision stays in effect", "documents of rule set %q: %v", id, err)
		}
	}
}

func (d *diagnosis) set(ctx context.Context, source rules.Source, id string) {
	version, err := source.Load(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNotFound): // deleted meanwhile
	case err != nil:
		d.add(Wrong, "rules", "correct the rules; running servers keep the last valid ones", "rule set %q: %v", id, err)
	default:
		d.waiting(version.RuleSet)
		d.ended(version.RuleSet)
	}
}
