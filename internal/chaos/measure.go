package chaos

import (
	"context"
	"encoding/json"
	"fmt"

	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// Find returns the fault with this name and path.
func Find(tb testing.TB, name string) Fault {
	tb.Helper()
	for _, f := range Faults() {
		if f.String() == name {
			return f
		}
	}
	tb.Fatalf("there is no fault %q", name)
	return Fault{}
}

// FrozenThroughput freezes Redis under callers that send as much as they can, and returns
// their rate of answers with Redis and without. The gateway has no leases: with them it
// answers most requests from memory in both cases.
func FrozenThroughput(tb testing.TB, timing Timing) (healthy, away float64) {
	tb.Helper()
	row := Run(tb, Fault{Name: "Redis frozen, without leases", Losses: oneLoss, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		g := openGateway(tb, s.URI())
		tb.Cleanup(func() { _ = g.store.Close() })
		g.serve(tb, g.store)
		return &Scene{Path: g, Begin: func(context.Context) error { return s.Freeze() }, End: func(context.Context) error { return s.Thaw() }}
	}}, Load{PerSecond: -1}, timing)
	return row.Healthy, row.Away
}

// Saturated sends as many requests as a server on a busy machine can answer over so
// many connections, without a fault.
func Saturated(tb testing.TB, callers int, during time.Duration) Row {
	tb.Helper()
	none := Fault{Name: "saturated", Under: "server", Expect: Expect{Either: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		s := testenv.StartStandalone(tb, testenv.Config{})
		return &Scene{Path: StartDaemon(tb, "", append(fileRules(tb), "redis.uri="+s.URI())...)}
	}}
	return Run(tb, none, Load{Callers: callers, PerSecond: -1}, Timing{During: during})
}

// fleet is several servers; each user's callers are spread over them.
type fleet []*Daemon

// Send implements [Path].
func (f fleet) Send(ctx context.Context, caller int, user string) Answer {
	return f[caller%len(f)].Send(ctx, caller, user)
}

// Healthy implements [Path].
func (f fleet) Healthy(ctx context.Context) bool {
	for _, d := range f {
		if !d.Healthy(ctx) {
			return false
		}
	}
	return true
}

// Deadline implements [Path].
func (f fleet) Deadline() time.Duration { return storeTimeout }

// OutageLimit is the limit of [Outage] in a minute: the smallest for which its promise
// holds.
const OutageLimit = 400

// Outage freezes the Redis of four servers with the default share of the fallback,
// after the buckets are used up, and returns the tokens admitted to users who send
// more than their rate from the freeze on, and those that are due: the rate, since a
// bucket was empty.
func Outage(tb testing.TB, outage, after time.Duration) (admitted int, due float64) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "rules.json")
	set, err := rules.NewSet(ruleSetID, rules.Rule{ID: "per-key", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerMinute(OutageLimit)}})
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(set)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s := testenv.StartStandalone(tb, testenv.Config{})
	var servers fleet
	for range callersPerUser {
		servers = append(servers, StartDaemon(tb, "", "rules.file="+file, "mongo.enabled=false", "redis.uri="+s.URI()))
	}
	testenv.Eventually(tb, "all servers are up", func() bool { return servers.Healthy(tb.Context()) })
	load := Load{PerSecond: 2_000}.withDefaults()
	book := newLedger(load.Callers)
	ctx, stop := context.WithCancel(tb.Context())
	var work sync.WaitGroup
	work.Go(func() { load.send(ctx, servers, book) })
	// 15 users send 132 requests a second each: 400 tokens last about 3 s. The servers
	// also have to know of each other.
	pause(ctx, 8*time.Second)
	begun := book.since()
	inject(tb, "freeze", func(context.Context) error { return s.Freeze() })
	pause(ctx, outage)
	inject(tb, "thaw", func(context.Context) error { return s.Thaw() })
	pause(ctx, after)
	ended := book.since()
	stop()
	work.Wait()
	for _, e := range between(book.entries(), begun, ended) {
		if e.allowed && e.user >= steadyCallers {
			admitted++
		}
	}
	users := load.users() - steadyCallers
	return admitted, float64(users) * OutageLimit * (ended - begun).Minutes()
}

// RollingRestart restarts two servers with default settings one after the other
// behind HAProxy, under load, and returns the requests and those that failed.
func RollingRestart(tb testing.TB) (requests, lost int) {
	tb.Helper()
	s := testenv.StartStandalone(tb, testenv.Config{})
	set := append(fileRules(tb), "redis.uri="+s.URI())
	servers := []*Daemon{StartDaemon(tb, "", set...), StartDaemon(tb, "", set...)}
	// The callers use the balancer like a server.
	balanced := &Daemon{Addr: startBalancer(tb, servers), http: newHTTPClient(tb)}
	load := Load{}.withDefaults()
	book := newLedger(load.Callers)
	ctx, stop := context.WithCancel(tb.Context())
	var work sync.WaitGroup
	work.Go(func() { load.send(ctx, balanced, book) })
	for _, d := range servers {
		pause(ctx, 2*time.Second)
		inject(tb, "stop", d.Stop)
		inject(tb, "start", d.restart)
		pause(ctx, 3*time.Second) // until the balancer has noticed
	}
	stop()
	work.Wait()
	all := book.entries()
	if first := book.firstError.Load(); first != nil {
		tb.Logf("the first error: %v", *first)
	}
	return len(all), count(all, func(e *entry) bool { return e.failed })
}

// startBalancer starts a HAProxy that asks servers every second whether they are
// ready.
func startBalancer(tb testing.TB, servers []*Daemon) (addr string) {
	tb.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		tb.Fatal("haproxy is not installed: apt-get install haproxy")
	}
	addr = testenv.FreeAddr(tb)
	config := `
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
  option redispatch
listen fluxgate
  bind ` + addr + `
  balance roundrobin
  option httpchk GET /readyz
`
	for i, d := range servers {
		config += fmt.Sprintf("  server s%d %s check inter 1s fall 2 rise 2\n", i, d.Addr)
	}
	file := filepath.Join(tb.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	testenv.StartProgram(tb, program, "-db", "-f", file)
	balancer := &Daemon{Addr: addr, http: newHTTPClient(tb)}
	testenv.Eventually(tb, "the balancer answers", func() bool { return balancer.ready(tb.Context()) == nil })
	return addr
}
