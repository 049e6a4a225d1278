package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// echoServer returns the address of a server that echoes all bytes.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func dialProxy(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn.(*net.TCPConn)
}

// echo sends text and expects it back.
func echo(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	must(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(conn, got)
	must(t, err)
	if string(got) != text {
		t.Fatalf("got %.40q, want %.40q", got, text)
	}
}

// A proxy forwards bytes and counts connections.
func TestProxy_Counts(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	a, b := dialProxy(t, p), dialProxy(t, p)
	echo(t, a, "hello")
	echo(t, b, strings.Repeat("long", 10_000))
	if p.Connections() != 2 || p.Accepted() != 2 {
		t.Errorf("%d connections, %d accepted", p.Connections(), p.Accepted())
	}
	// The end of the stream is forwarded in both directions, after the bytes.
	_, err := io.WriteString(a, "bye")
	must(t, err)
	must(t, a.CloseWrite())
	rest, err := io.ReadAll(a)
	if err != nil || string(rest) != "bye" {
		t.Errorf("read %q at the end, %v", rest, err)
	}
	must(t, poll(testContext(t), func(context.Context) error {
		if n := p.Connections(); n != 1 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	}))
}

// Latency keeps order and throughput.
func TestProxy_Latency(t *testing.T) {
	const latency, messages = 100 * time.Millisecond, 200
	p := StartProxy(t, echoServer(t))
	p.SetLatency(latency, latency)
	conn := dialProxy(t, p)

	begin := time.Now()
	echo(t, conn, "one")
	single := time.Since(begin)
	if single < 2*latency {
		t.Errorf("a round trip took %v, want at least %v", single, 2*latency)
	}

	// Many messages, written while earlier ones are in flight.
	var want strings.Builder
	for i := range messages {
		fmt.Fprintf(&want, "message %d;", i)
	}
	begin = time.Now()
	go func() {
		for i := range messages {
			fmt.Fprintf(conn, "message %d;", i)
		}
	}()
	got := make([]byte, want.Len())
	_, err := io.ReadFull(conn, got)
	must(t, err)
	if string(got) != want.String() {
		t.Error("the messages were returned in another order")
	}
	// One latency per message would take a hundred times as long.
	if took := time.Since(begin); took > messages/10*latency {
		t.Errorf("%d messages took %v, one took %v", messages, took, single)
	}

	// Bytes sent after the latency ends do not overtake those before.
	p.SetLatency(latency, 0)
	_, err = io.WriteString(conn, "slow,")
	must(t, err)
	p.SetLatency(0, 0)
	_, err = io.WriteString(conn, "fast")
	must(t, err)
	got = make([]byte, len("slow,fast"))
	_, err = io.ReadFull(conn, got)
	must(t, err)
	if string(got) != "slow,fast" {
		t.Errorf("got %q", got)
	}
}

// Replies are dropped, requests are not.
func TestProxy_SwallowedReplies(t *testing.T) {
	s := StartStandalone(t, Config{})
	p := StartProxy(t, s.Addr())
	through, err := connect(testContext(t), p.Addr(), nil)
	must(t, err)
	defer through.close()
	_, err = through.do("INCR", "n")
	must(t, err)

	p.SwallowReplies(true)
	must(t, through.conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
	if reply, err := through.do("INCR", "n"); err == nil {
		t.Fatalf("the reply %v was forwarded", reply)
	}
	must(t, poll(testContext(t), func(ctx context.Context) error {
		if got, err := s.Do(ctx, "GET", "n"); err != nil || got != "2" {
			return fmt.Errorf("the command did not reach the server: %v, %w", got, err)
		}
		return nil
	}))

	p.SwallowReplies(false)
	must(t, through.conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
	if reply, err := through.do("INCR", "n"); err == nil {
		t.Errorf("a stream that lost a reply continued with %v", reply)
	}
	fresh, err := connect(testContext(t), p.Addr(), nil)
	must(t, err)
	defer fresh.close()
	_, err = fresh.do("PING")
	must(t, err)
}

// A blackhole drops requests and replies, and a connection that lost bytes stays
// silent.
func TestProxy_Blackhole(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	conn := dialProxy(t, p)
	echo(t, conn, "before")
	p.Blackhole(true)
	_, err := io.WriteString(conn, "lost")
	must(t, err)
	silent := func() {
		t.Helper()
		must(t, conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes: %v", n, err)
		}
		must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	}
	silent()
	p.Blackhole(false)
	_, err = io.WriteString(conn, "lost too")
	must(t, err)
	silent()
	echo(t, dialProxy(t, p), "after")
}

// Mute silences the open connections only.
func TestProxy_Mute(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	conn := dialProxy(t, p)
	echo(t, conn, "before")
	p.Mute()
	_, err := io.WriteString(conn, "lost")
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes: %v", n, err)
	}
	echo(t, dialProxy(t, p), "new")
}

// A truncated reply is half of it and the end of the connection.
func TestProxy_TruncatedReplies(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	conn := dialProxy(t, p)
	echo(t, conn, "before")
	p.TruncateReplies(true)
	_, err := io.WriteString(conn, "one reply")
	must(t, err)
	if got, err := io.ReadAll(conn); string(got) != "one " || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	p.TruncateReplies(false)
	echo(t, dialProxy(t, p), "after")
}

// Cut resets connections and accepts new ones.
func TestProxy_Cut(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	conn := dialProxy(t, p)
	echo(t, conn, "before")
	p.SetLatency(time.Hour, time.Hour)
	_, err := io.WriteString(conn, "lost")
	must(t, err)
	p.Cut()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading from a cut connection: %v", err)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections after Cut", n)
	}
	p.SetLatency(0, 0)
	echo(t, dialProxy(t, p), "after")
}

// Refuse refuses new connections and keeps open ones.
func TestProxy_Refuse(t *testing.T) {
	p := StartProxy(t, echoServer(t))
	open := dialProxy(t, p)
	echo(t, open, "before")
	p.Refuse()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = conn.Close()
		t.Error("a connection was accepted")
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a refusing proxy: %v", err)
	}
	echo(t, open, "open connections stay")
	must(t, p.Accept())
	echo(t, dialProxy(t, p), "after")
}

// Without a server, connections are reset.
func TestProxy_NoServer(t *testing.T) {
	port, err := reservePort()
	must(t, err)
	defer releasePort(port)
	p := StartProxy(t, loopback(port))
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil { // the reset may arrive this early
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a server: %v", err)
	}
}

// TLS is forwarded.
func TestProxy_TLS(t *testing.T) {
	s := StartStandalone(t, Config{MutualTLS: true})
	p := StartProxy(t, s.Addr())
	conn, err := connect(testContext(t), p.Addr(), s.TLSConfig())
	must(t, err)
	defer conn.close()
	_, err = conn.do("PING")
	must(t, err)
}
