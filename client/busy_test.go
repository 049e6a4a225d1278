package client_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
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

// statusRecorder passes a status on and calls a function with it.
type statusRecorder struct {
	http.ResponseWriter
	seen func(status int)
}

func (w statusRecorder) WriteHeader(status int) {
	w.seen(status)
	w.ResponseWriter.WriteHeader(status)
}

// A server that is busy has taken nothing: the client asks again until the server
// decides.
func TestClient_BusyServer(t *testing.T) {
	engine := engineOver(t, newStore(t), []rules.Rule{perHour("r", 1)})
	api := handler(t, engine)
	var busy atomic.Int64
	free := make(chan struct{})
	once := sync.OnceFunc(func() { close(free) })
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(statusRecorder{w, func(status int) {
			if status == http.StatusServiceUnavailable && busy.Add(1) == 2 {
				once()
			}
		}}, r)
	}))
	// The large bodies of one caller that are read at the same time.
	var large []net.Conn
	for range 16 {
		conn := fluxgate.Must(net.Dial("tcp", server.Listener.Addr().String()))
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n\r\n{")
		large = append(large, conn)
	}
	go func() {
		<-free
		for _, conn := range large {
			_ = conn.Close()
		}
	}()
	defer once()
	c := newClient(t, server.URL, client.Config{OnFailure: rules.FailOpen})
	req := fluxgate.Request{Headers: map[string][]string{"X-Large": {strings.Repeat("x", 20<<10)}}}
	testenv.Eventually(t, "the server is busy", func() bool {
		response, err := http.Post(server.URL+"/v1/check", "application/json", strings.NewReader(strings.Repeat(" ", 20<<10)))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	for _, want := range []answer{{true, fluxgate.ReasonOK, "r"}, {false, fluxgate.ReasonLimited, "r"}} {
		if d, err := c.Check(t.Context(), &req); err != nil || answerOf(&d) != want {
			t.Errorf("%+v, %v, want %+v", answerOf(&d), err, want)
		}
	}
	if n := busy.Load(); n < 2 {
		t.Errorf("the server was busy %d times", n)
	}
}

// refusing answers the first requests like a server that is busy, or that could not
// decide in time.
func refusing(h http.Handler, first int64, header http.Header) (http.Handler, *atomic.Int64) {
	requests := new(atomic.Int64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > first {
			h.ServeHTTP(w, r)
			return
		}
		maps.Copy(w.Header(), header)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"detail":"The server has too many connections."}`)
	}), requests
}

var busyHeader = http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"1"}}

// OnFailure decides only when the time is over.
func TestClient_BusyUntilTheEnd(t *testing.T) {
	const timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		header http.Header
		again  bool
	}{
		"busy":                {busyHeader, true},
		"without Retry-After": {http.Header{"Content-Type": {"application/problem+json"}}, false},
		"of a proxy":          {http.Header{"Content-Type": {"text/html"}, "Retry-After": {"1"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, requests := refusing(nil, 1<<40, c.header)
			var heard failures
			limiter := newClient(t, serve(t, h).URL, client.Config{Timeout: timeout, OnFailure: rules.FailClosed, Failed: heard.hear})
			begin := time.Now()
			d, err := limiter.Check(t.Context(), &fluxgate.Request{})
			if want := (answer{false, fluxgate.ReasonStoreFailure, ""}); err != nil || answerOf(&d) != want || heard.count.Load() != 1 || !strings.Contains(heard.text(), "503") {
				t.Errorf("%+v, %v, %d failures: %s", answerOf(&d), err, heard.count.Load(), heard.text())
			}
			if spent := time.Since(begin); spent > 10*timeout {
				t.Errorf("it took %v", spent)
			}
			if n := requests.Load(); n < 1 || n > 10 || (n > 1) != c.again {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

// Settlements that a busy server refuses are sent again.
func TestClient_BusySettlement(t *testing.T) {
	api := handler(t, engineOver(t, newStore(t), []rules.Rule{perHour("r", 100)}))
	d := fluxgate.Must(newClient(t, serve(t, api).URL, client.Config{}).Check(t.Context(), &fluxgate.Request{Cost: 10}))
	h, _ := refusing(api, 1, busyHeader)
	if got, err := newClient(t, serve(t, h).URL, client.Config{}).Settle(t.Context(), d.Receipt(), 4); err != nil || got.Returned != 6 {
		t.Errorf("%+v, %v", got, err)
	}
}
