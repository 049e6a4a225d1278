package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// A check whose answer is lost is not sent again: it may have taken tokens.
func TestClient_LostAnswer(t *testing.T) {
	const capacity = 20 // regains nothing while the test runs
	for _, c := range []struct {
		name string
		lose func(proxy *testenv.Proxy, answered func() bool)
	}{
		{"it is swallowed", func(*testenv.Proxy, func() bool) {}},
		{"the connection is cut meanwhile", func(proxy *testenv.Proxy, answered func() bool) {
			testenv.Eventually(t, "the server has answered", answered) // or it gives back what it took
			proxy.Cut()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := onRedis(t, []rules.Rule{perHour("r", capacity)})
			proxy := testenv.StartProxy(t, strings.TrimPrefix(g.server.URL, "http://"))
			var heard failures
			limiter := newClient(t, "http://"+proxy.Addr(), client.Config{Timeout: time.Second, OnFailure: rules.FailClosed, Failed: heard.hear})
			// The first leaves a connection behind, which net/http would use
			// to send a request again.
			testenv.Eventually(t, "a connection is kept", func() bool {
				d, err := limiter.Check(t.Context(), &fluxgate.Request{})
				return err == nil && d.Allowed
			})
			heard.count.Store(0)
			for range 5 {
				before := g.left(fluxgate.Request{})["r.hour"]
				answers := g.answered.Load()
				answered := func() bool { return g.answered.Load() > answers }
				proxy.SwallowReplies(true)
				done := make(chan fluxgate.Decision, 1)
				go func() {
					d, err := limiter.Check(t.Context(), &fluxgate.Request{})
					if err != nil {
						t.Error(err)
					}
					done <- d
				}()
				c.lose(proxy, answered)
				if d := <-done; answerOf(&d) != (answer{false, fluxgate.ReasonStoreFailure, ""}) {
					t.Errorf("decided %+v", answerOf(&d))
				}
				testenv.Eventually(t, "the server has answered", answered)
				proxy.SwallowReplies(false)
				// One that arrives shows that nothing is still on its way.
				testenv.Eventually(t, "the next is answered", func() bool {
					d, err := limiter.Check(t.Context(), &fluxgate.Request{Peek: true})
					return err == nil && d.Allowed
				})
				if after := g.left(fluxgate.Request{})["r.hour"]; after != before-1 {
					t.Fatalf("%d left of %d: the check ran %d times", after, before, before-after)
				}
			}
			if heard.count.Load() < 5 {
				t.Errorf("%d failures were told of, want 5", heard.count.Load())
			}
		})
	}
}

// closing is a server that can close its connections, and counts what it is
// asked.
type closing struct {
	*httptest.Server
	asked atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
}

func newClosing(t testing.TB, h http.Handler, encrypted bool) *closing {
	t.Helper()
	s := &closing{conns: make(map[net.Conn]http.ConnState)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		h.ServeHTTP(w, r)
	}))
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conns[conn] = state; state == http.StateClosed {
			delete(s.conns, conn)
		}
	}
	s.Config.ErrorLog = log.New(failing{t}, "", 0)
	if encrypted {
		s.Config.ErrorLog.SetOutput(io.Discard) // of handshakes that the end of the test interrupts
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// idle reports whether no connection is in use.
func (s *closing) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.conns {
		if state == http.StateActive {
			return false
		}
	}
	return true
}

// closeIdle closes all connections that were in use.
func (s *closing) closeIdle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	closed := 0
	for conn, state := range s.conns {
		if state == http.StateIdle {
			_ = conn.Close()
			closed++
		}
	}
	return closed
}

// If all idle connections were just closed, calls succeed and no tokens are taken
// twice.
func TestClient_ClosedIdleConnections(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			const capacity, callers = 100_000, 8
			rounds := 60
			if encrypted {
				rounds = 15 // handshakes
			}
			engine := engineOver(t, newStore(t), []rules.Rule{perHour("r", capacity)})
			server := newClosing(t, handler(t, engine), encrypted)
			config := client.Config{}
			if encrypted {
				roots := x509.NewCertPool()
				roots.AddCert(server.Certificate())
				config.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
			}
			limiter := newClient(t, server.URL, config)
			closed := 0
			for range rounds {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range 3 {
							if d, err := limiter.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed || d.Degraded {
								t.Errorf("%+v, %v", answerOf(&d), err)
							}
						}
					})
				}
				all.Wait()
				testenv.Eventually(t, "all connections are idle", server.idle)
				closed += server.closeIdle()
			}
			if closed < rounds {
				t.Errorf("only %d connections were closed", closed)
			}
			want := int64(rounds * callers * 3)
			if asked, taken := server.asked.Load(), capacity-left(t, engine, fluxgate.Request{})["r.hour"]; asked > want || taken != want {
				t.Errorf("%d checks were asked %d times and took %d tokens", want, asked, taken)
			}
		})
	}
}

// Many callers share a bounded number of connections.
func TestClient_Connections(t *testing.T) {
	const most = 4
	engine := engineOver(t, newStore(t), []rules.Rule{perHour("r", 100_000)})
	server := newClosing(t, handler(t, engine), false)
	proxy := testenv.StartProxy(t, server.Listener.Addr().String())
	limiter := newClient(t, "http://"+proxy.Addr(), client.Config{MaxConns: most})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				if d, err := limiter.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := proxy.Accepted(); got > most {
		t.Errorf("%d connections for 320 checks, want at most %d", got, most)
	}
	if err := limiter.Close(); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the connections are closed", func() bool { return proxy.Connections() == 0 })
}

// A server with a self-signed certificate is not trusted.
func TestClient_UnknownServer(t *testing.T) {
	server := newClosing(t, http.NotFoundHandler(), true)
	var heard failures
	limiter := newClient(t, server.URL, client.Config{Token: []byte("hush"), Failed: heard.hear, OnFailure: rules.FailClosed})
	d, err := limiter.Check(t.Context(), &fluxgate.Request{})
	if err != nil || d.Allowed || server.asked.Load() != 0 || !strings.Contains(heard.text(), "certificate") {
		t.Errorf("allowed %t, %v, %q", d.Allowed, err, heard.text())
	}
}
