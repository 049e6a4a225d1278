package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
)

// eachServer runs a test on HTTP/1.1 and HTTP/2, with and without settling.
func eachServer(t *testing.T, handler http.HandlerFunc, test func(*testing.T, *httptest.Server)) {
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		for _, settle := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s settling %t", protocol, settle), func(t *testing.T) {
				engine := newEngine(t, []rules.Rule{perHour("r", 2)})
				server := httptest.NewUnstartedServer(newLimit(t, engine, httplimit.WithSettling(settle))(handler))
				server.EnableHTTP2 = http2
				server.StartTLS()
				t.Cleanup(server.Close)
				test(t, server)
			})
		}
	}
}

// Requests are limited on real servers, over HTTP/1.1 and HTTP/2.
func TestServer_Protocols(t *testing.T) {
	eachServer(t, hello.ServeHTTP, func(t *testing.T, server *httptest.Server) {
		for i, want := range []int{200, 200, 429} {
			response, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != want || len(policies(t, response.Header)) != 1 {
				t.Errorf("request %d over %s: status %d, %v, headers %v", i, response.Proto, response.StatusCode, err, response.Header)
			}
			if strings.HasPrefix(string(body), "hello") != (want == 200) {
				t.Errorf("request %d: body %s", i, body)
			}
			if proto := strings.Contains(t.Name(), response.Proto); !proto {
				t.Errorf("the protocol is %s", response.Proto)
			}
		}
	})
}

// A flush sends data to the client while the handler runs.
func TestServer_Flush(t *testing.T) {
	goOn := make(chan struct{})
	eachServer(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "line %d\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
	}, func(t *testing.T, server *httptest.Server) {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.Header.Get("RateLimit") == "" {
			t.Errorf("headers %v", response.Header)
		}
		lines := bufio.NewScanner(response.Body)
		for i := range 3 {
			if !lines.Scan() || lines.Text() != fmt.Sprint("line ", i) {
				t.Fatalf("line %d is %q: %v", i, lines.Text(), lines.Err())
			}
			goOn <- struct{}{}
		}
	})
}

// A handler can hijack the connection.
func TestServer_Hijack(t *testing.T) {
	for _, settle := range []bool{false, true} {
		t.Run(fmt.Sprint("settling ", settle), func(t *testing.T) {
			limit := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), httplimit.WithSettling(settle))
			server := serve(t, limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, stream, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
				_ = stream.Flush()
				line, _ := stream.ReadString('\n')
				_, _ = stream.WriteString("echo " + line)
				_ = stream.Flush()
			})))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("status %d", response.StatusCode)
			}
			fmt.Fprint(conn, "hello\n")
			if line, err := reader.ReadString('\n'); err != nil || line != "echo hello\n" {
				t.Errorf("the answer is %q, %v", line, err)
			}
		})
	}
}

// The handler gets the server's own ResponseWriter with all its interfaces:
// ReadFrom, deadlines and full duplex.
func TestServer_Writer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large")
	content := strings.Repeat("0123456789", 100_000)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]httplimit.Option{nil, {httplimit.WithSettling(true)}, {httplimit.WithoutPaths("/**")}} {
		limit := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 9)}), options...)
		var outside http.ResponseWriter
		inner := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if w != outside {
				t.Errorf("the writer is a %T, want the server's %T", w, outside)
			}
			if _, ok := w.(io.ReaderFrom); !ok {
				t.Error("the writer cannot read from a file")
			}
			control := http.NewResponseController(w)
			if err := control.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := control.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			http.ServeFile(w, r, file)
		}))
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			outside = w
			inner.ServeHTTP(w, r)
		}))
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(body) != content {
			t.Errorf("got %d bytes, %v", len(body), err)
		}
	}
}

// An upload that is rejected is not read.
func TestServer_RejectedUpload(t *testing.T) {
	server := serve(t, newLimit(t, decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}))(hello))
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403 and no 100", response.StatusCode)
	}
}
