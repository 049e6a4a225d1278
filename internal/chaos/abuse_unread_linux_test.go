package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// secure returns the settings of a server whose check API uses TLS at another address. Callers
// without TLS reach it at addr.
func (a *attacked) secure(t *testing.T, addr string) []string {
	t.Helper()
	certs := testenv.NewCertificates(t)
	a.tls, a.config = testenv.FreeAddr(t), certs.ClientConfig()
	accepting, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepting.Close() })
	go func() {
		for {
			conn, err := accepting.Accept()
			if err != nil {
				return
			}
			go a.forward(conn)
		}
	}()
	return []string{"server.http=" + a.tls, "server.tls.cert-file=" + certs.CertFile, "server.tls.key-file=" + certs.KeyFile, "server.tls.listeners=http"}
}

func (a *attacked) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := tls.Dial("tcp", a.tls, a.config)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
	}()
	_, _ = io.Copy(from, to)
}

// reconnecting runs an attack on so many connections from another address than that of the
// honest callers, and begins again if one is closed.
func reconnecting(ctx context.Context, addr string, connections int, run func(conn net.Conn)) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	var attacking sync.WaitGroup
	for range connections {
		attacking.Go(func() {
			for ctx.Err() == nil {
				if conn, err := dialer.DialContext(ctx, "tcp", addr); err == nil {
					end := context.AfterFunc(ctx, func() { _ = conn.Close() })
					run(conn)
					end()
					_ = conn.Close()
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	attacking.Wait()
}

var smallBatch = `{"requests":[` + strings.Repeat(`{"apiKey":"a","path":"/x"},`, 99) + `{}]}`

// unreadBatches sends batches on 2,000 connections and reads no answer.
func unreadBatches(ctx context.Context, t *testing.T, a *attacked) {
	t.Helper()
	request := fmt.Appendf(nil, "POST /v1/check:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(smallBatch), smallBatch)
	var batches atomic.Int64
	reconnecting(ctx, a.Addr, 2_000, func(conn net.Conn) {
		for range 20 {
			if _, err := conn.Write(request); err != nil {
				return
			}
			batches.Add(1)
		}
		<-ctx.Done()
	})
	t.Logf("%d batches", batches.Load())
}

// unreadStreams has requests over HTTP/2 on many connections and does not let the server send
// the answers, or does not send the body.
func unreadStreams(path string, connections int, body bool) attack {
	return func(ctx context.Context, t *testing.T, a *attacked) {
		t.Helper()
		config := a.config.Clone()
		config.NextProtos, config.ServerName = []string{"h2"}, "localhost"
		block := headers(":method", "POST", ":scheme", "https", ":path", path, ":authority", "localhost", "content-type", "application/json")
		var streams atomic.Int64
		reconnecting(ctx, a.tls, connections, func(conn net.Conn) {
			secure := tls.Client(conn, config)
			if secure.HandshakeContext(ctx) != nil {
				return
			}
			c, err := newHTTP2(secure, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			var open [240]uint32
			for ctx.Err() == nil && err == nil {
				for i := range open {
					if open[i] != 0 && !c.hasEnded(open[i]) {
						continue
					}
					streams.Add(1)
					if open[i], err = c.open(block); err == nil && body {
						err = c.framer.WriteData(open[i], true, []byte(smallBatch))
					}
				}
				if err == nil {
					err = c.out.Flush()
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		t.Logf("%d requests", streams.Load())
	}
}
