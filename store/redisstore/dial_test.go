package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// listen is a server that accepts connections and sends nothing.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

// A connection to a new master closes those to the old one.
func TestDial_NewMaster(t *testing.T) {
	oldMaster, newMaster := listen(t), listen(t)
	// The n-th dial connects to the address from the n-th channel.
	var n atomic.Int64
	leads := [4]chan string{}
	for i := range leads {
		leads[i] = make(chan string, 1)
	}
	d := watchDials(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, <-leads[n.Add(1)-1])
	}, nil)
	t.Cleanup(func() { _ = d.close() })
	dial := func() net.Conn {
		t.Helper()
		conn, err := d.Dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	isOpen := func(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) == nil }

	leads[0] <- oldMaster
	leads[1] <- oldMaster
	first, second := dial(), dial()
	if _, ok := first.(syscall.Conn); !ok {
		t.Error("the client cannot look into the socket, and would use it after the server has closed it")
	}
	// The third begins before the fourth and ends after it.
	late := make(chan error)
	go func() {
		_, err := d.Dial(t.Context(), "tcp", "")
		late <- err
	}()
	until(t, "the third dial has begun", func() bool { return n.Load() == 3 })
	if !isOpen(first) || !isOpen(second) {
		t.Error("connections ended before there was a new master")
	}
	leads[3] <- newMaster
	fourth := dial()
	if isOpen(first) || isOpen(second) {
		t.Error("connections to the old master are still open")
	}
	leads[2] <- oldMaster
	if err := <-late; !errors.Is(err, errDemoted) || resultOf(err) != notReached {
		t.Errorf("a dial to the old master that was overtaken: %v", err)
	}
	if !isOpen(fourth) {
		t.Error("the connection to the new master was ended")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) != 1 {
		t.Errorf("%d connections are known, 1 is open", len(d.open))
	}
}
