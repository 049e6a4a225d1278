package chaos

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

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
