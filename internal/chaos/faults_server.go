package chaos

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/frontproxy"
)

func listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// serverFaults are faults under a server process: of its Redis, and of itself.
func serverFaults() []Fault {
	faults := []Fault{
		frozenBehind("server", func(tb testing.TB, set []string) (Path, *Daemon) {
			tb.Helper()
			d := StartDaemon(tb, "", set...)
			return d, d
		}),
		frozenBehind("client", func(tb testing.TB, set []string) (Path, *Daemon) {
			tb.Helper()
			d := StartDaemon(tb, "", set...)
			return startRemote(tb, d), d
		}),
	}
	for _, p := range frontproxy.All {
		faults = append(faults, frozenBehind(p.Name, func(tb testing.TB, set []string) (Path, *Daemon) {
			tb.Helper()
			behind := startProxied(tb, p, set...)
			return behind, behind.Daemon
		}))
	}
	for _, p := range frontproxy.All {
		for _, take := range []taking{killing, freezing} {
			faults = append(faults, behindProxy(p, take))
		}
	}
	faults[0].Short = true
	return append(faults, underClient(killing), underClient(freezing))
}

// frozenBehind freezes the Redis of a server.
func frozenBehind(under string, start func(tb testing.TB, set []string) (Path, *Daemon)) Fault {
	return Fault{Name: "Redis frozen", Under: under, Losses: oneLoss, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		path, d := start(tb, append(fileRules(tb), "redis.uri="+s.URI()))
		return &Scene{
			Path: path, Verify: d.verify,
			Begin: func(context.Context) error { return s.Freeze() },
			End:   func(context.Context) error { return s.Thaw() },
		}
	}}
}

// taking is a way to take a server process away, and to bring it back.
type taking struct {
	name       string
	begin, end func(ctx context.Context, d *Daemon) error
}

var (
	killing = taking{"killed",
		func(_ context.Context, d *Daemon) error { return d.Kill() },
		func(ctx context.Context, d *Daemon) error { return d.restart(ctx) }}
	freezing = taking{"frozen",
		func(_ context.Context, d *Daemon) error { return d.Freeze() },
		func(_ context.Context, d *Daemon) error { return d.Thaw() }}
)

// behindProxy takes the only server behind a proxy away. The snippets fail closed:
// callers get errors after the proxy's timeouts, and no token is lost, since the
// buckets are in Redis.
func behindProxy(p *frontproxy.Proxy, take taking) Fault {
	return Fault{Name: "fluxgate " + take.name, Under: p.Name, Expect: Expect{Errors: true, Either: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		behind := startProxied(tb, p, append(fileRules(tb), "redis.uri="+s.URI())...)
		behind.deadline = 2 * time.Second // of the snippets, for an answer of fluxgate
		return sceneOf(behind, behind.Daemon, take)
	}}
}

// underClient takes the server of a client away. The client counts in a fallback of
// its own, which begins full, while Redis refills: two losses of state.
func underClient(take taking) Fault {
	return Fault{Name: "fluxgate " + take.name, Under: "client", Losses: 2, Expect: Expect{Either: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		d := StartDaemon(tb, "", append(fileRules(tb), "redis.uri="+s.URI())...)
		return sceneOf(startRemote(tb, d), d, take)
	}}
}

func sceneOf(path Path, d *Daemon, take taking) *Scene {
	return &Scene{
		Path: path, Verify: d.verify,
		Begin: func(ctx context.Context) error { return take.begin(ctx, d) },
		End:   func(ctx context.Context) error { return take.end(ctx, d) },
	}
}
