package httplimit_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"testing"
)

// pipes is a listener in memory. It works in a synctest bubble, where a socket would not: virtual
// time does not wait for the network.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveInMemory is serve without the network. It returns the client that reaches the server.
func serveInMemory(t testing.TB, handler http.Handler) *http.Client {
	t.Helper()
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler, ErrorLog: log.New(failing{t}, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return &http.Client{Transport: &http.Transport{DialContext: listener.dial}}
}
