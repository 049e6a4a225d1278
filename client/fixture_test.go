package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// patient is what tests wait for a server on a machine with other things to do.
const patient = 20 * time.Second

// newStore returns a store in memory with a fixed clock.
func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	return fluxgate.Must(memstore.New(memstore.Config{Clock: storetest.NewClock().Now}))
}

// newRedis is a store of its own on the shared Redis.
func newRedis(t testing.TB, uri string, timeout time.Duration) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(t.Context(), uri, redisstore.Config{
		Timeout: timeout, Prefix: fmt.Sprintf("client-%d-%d", time.Now().UnixNano(), stores.Add(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

var stores atomic.Int64

func engineOver(t testing.TB, buckets store.Store, list []rules.Rule, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	set, err := rules.NewSet("api", list...)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(buckets, fluxgate.Static(set), options...)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// handler is what a server answers checks with.
func handler(t testing.TB, limiter fluxgate.Limiter) http.Handler {
	t.Helper()
	issuer, err := receipt.NewIssuer(receipt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := check.New(check.Config{Limiter: limiter, Issuer: issuer})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, h := range api.Routes() {
		mux.Handle(pattern, h)
	}
	return mux
}

// serve runs a real server until the test ends. What it logs is an error of
// the test.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(failing{t}, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

type failing struct{ testing.TB }

func (f failing) Write(line []byte) (int, error) {
	f.Errorf("the server logs: %s", line)
	return len(line), nil
}

// newClient is a client with time, unless the test gives it less, that fails
// the test if the server does not decide, unless the test wants to hear of it.
func newClient(t testing.TB, address string, config client.Config) *client.Client {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = patient
	}
	if config.Failed == nil {
		config.Failed = func(_ context.Context, err error) { t.Errorf("the server has not decided: %v", err) }
	}
	c, err := client.New(address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// gate is a client of a server of an engine.
type gate struct {
	fluxgate.Limiter
	testing.TB
	engine *fluxgate.Engine
	server *httptest.Server
	// answered counts the requests that the server has answered.
	answered atomic.Int64
}

func newGate(t testing.TB, buckets store.Store, list []rules.Rule, options ...fluxgate.Option) *gate {
	t.Helper()
	engine := engineOver(t, buckets, list, options...)
	g := &gate{TB: t, engine: engine}
	api := handler(t, engine)
	g.server = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r)
		g.answered.Add(1)
	}))
	g.Limiter = newClient(t, g.server.URL, client.Config{MaxWait: 30 * time.Second})
	return g
}

func (g *gate) check(req fluxgate.Request) fluxgate.Decision {
	g.Helper()
	d, err := g.Check(g.Context(), &req)
	if err != nil {
		g.Fatalf("no decision for %+v: %v", req, err)
	}
	return d
}

// admitted is how many of n equal requests pass.
func (g *gate) admitted(n int, req fluxgate.Request) int {
	g.Helper()
	passed := 0
	for range n {
		if g.check(req).Allowed {
			passed++
		}
	}
	return passed
}

// left is what is in each band, as the engine sees it past the server.
func (g *gate) left(req fluxgate.Request) map[string]int64 {
	g.Helper()
	return left(g, g.engine, req)
}

func left(t testing.TB, limiter fluxgate.Limiter, req fluxgate.Request) map[string]int64 {
	t.Helper()
	req.Peek, req.Cost = true, 0
	d, err := limiter.Check(context.WithoutCancel(t.Context()), &req)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]int64{}
	for b := range d.Bands() {
		tokens[b.Rule.ID+"."+b.Band.Name()] = b.Remaining
	}
	return tokens
}

// bands are the bands of a decision in words.
func bands(d *fluxgate.Decision) []string {
	var all []string
	for b := range d.Bands() {
		words := fmt.Sprintf("%s.%s %v %d of %d", b.Rule.ID, b.Band.Name(), b.Status, b.Remaining, b.Limit)
		if b.Shadow() {
			words += " shadow"
		}
		if b.Source != store.FromStore {
			words += " from " + b.Source.String()
		}
		all = append(all, words)
	}
	return all
}

// answer is what most tests want to know of a decision.
type answer struct {
	allowed bool
	reason  fluxgate.Reason
	rule    string
}

func answerOf(d *fluxgate.Decision) answer { return answer{d.Allowed, d.Reason, d.RuleID} }

var here = netip.MustParseAddr("192.0.2.1")

// perHour is a rule for everyone with one band of n an hour, labelled "hour".
func perHour(id string, n int64) rules.Rule {
	return rules.Rule{ID: id, Bands: []rules.Band{{Label: "hour", Capacity: n, Refill: time.Hour}}}
}

// with changes a rule.
func with(r rules.Rule, change func(*rules.Rule)) rules.Rule {
	change(&r)
	return r
}

// failures are those that a client reported.
type failures struct {
	count atomic.Int64
	last  atomic.Value
}

func (f *failures) hear(_ context.Context, err error) {
	f.count.Add(1)
	f.last.Store(err.Error())
}

func (f *failures) text() string {
	text, _ := f.last.Load().(string)
	return text
}

// scripted is a server that answers every request with the same bytes and
// then closes the connection, or keeps it open and says nothing more.
func scripted(t testing.TB, reply string, stay bool) (address string, asked *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				request := make([]byte, 0, 64<<10)
				for !strings.HasSuffix(string(request), "}") { // of the body
					n, err := conn.Read(request[len(request):cap(request)])
					if err != nil {
						return
					}
					request = request[:len(request)+n]
				}
				asked.Add(1)
				_, _ = io.WriteString(conn, reply)
				if stay {
					_, _ = io.Copy(io.Discard, conn)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String(), asked
}
