package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// starve leaves the process one processor until the test ends, which busy goroutines use too.
func starve(t testing.TB, busy int) {
	former := runtime.GOMAXPROCS(1)
	var end atomic.Bool
	var spinning sync.WaitGroup
	for range busy {
		spinning.Go(func() {
			for !end.Load() {
			}
		})
	}
	t.Cleanup(func() {
		end.Store(true)
		spinning.Wait()
		runtime.GOMAXPROCS(former)
	})
}

// starvedCrowd takes with many callers for a while, and returns how many of their requests were
// decided and how many were not.
func starvedCrowd(t testing.TB, s *Store, lasts time.Duration) (decided, failed int64) {
	t.Helper()
	d := newProbe(t, s).demand("rule", 1, ample)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var callers sync.WaitGroup
	var ok, late atomic.Int64
	for range 128 {
		callers.Go(func() {
			var out store.Outcome
			for ctx.Err() == nil {
				switch err := s.Take(t.Context(), []store.Demand{d}, &out); {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, store.ErrNotSent):
					time.Sleep(time.Millisecond) // or the callers alone would keep the process busy
					late.Add(1)
				default:
					late.Add(1)
				}
			}
		})
	}
	callers.Wait()
	return ok.Load(), late.Load()
}

const pingedServer = "FLUXGATE_TEST_PINGED_SERVER"

// watchPings lets another process send PING to a server until longest is called, which returns
// the longest time that an answer took.
func watchPings(t testing.TB, addr string) (longest func() time.Duration) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStarved_Pings$")
	child.Env = append(os.Environ(), pingedServer+"="+addr)
	end, err := child.StdinPipe()
	must(t, err)
	output, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	lines := bufio.NewScanner(output)
	next := func() time.Duration {
		t.Helper()
		lines.Scan()
		took, err := time.ParseDuration(lines.Text())
		must(t, err)
		return took
	}
	next() // it has begun
	return func() time.Duration {
		t.Helper()
		must(t, end.Close())
		took := next()
		_, _ = io.Copy(io.Discard, output)
		must(t, child.Wait())
		return took
	}
}

// The program that watchPings runs.
func TestStarved_Pings(t *testing.T) {
	addr := os.Getenv(pingedServer)
	if addr == "" {
		t.Skip("watchPings starts it")
	}
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	longest, reply := time.Duration(0), make([]byte, len("+PONG\r\n"))
	fmt.Println(longest)
	for {
		select {
		case err := <-ended:
			must(t, err)
			fmt.Println(longest)
			return
		case <-time.After(time.Millisecond):
		}
		start := time.Now()
		_, err := io.WriteString(conn, "PING\r\n")
		must(t, err)
		_, err = io.ReadFull(conn, reply)
		must(t, err)
		longest = max(longest, time.Since(start))
	}
}

// A gateway with too little processor time does not take that for an outage of Redis, and
// notices an outage.
func TestBreaker_StarvedGateway_NoRace(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for name, busy := range map[string]int{"callers": 0, "others": 2} {
		t.Run(name, func(t *testing.T) {
			log := new(testenv.LogBuffer)
			server := testenv.StartStandalone(t, testenv.Config{})
			s := openStore(t, server.URI(), Config{Timeout: timeout, Logger: log.Logger()})
			longestPing := watchPings(t, server.Addr())
			starve(t, busy)
			decided, failed := starvedCrowd(t, s, 3*time.Second)
			ping := longestPing()
			t.Logf("%d decided, %d not; Redis answered another process within %v", decided, failed, ping)
			// If others starve Redis too, it is late.
			if lines := log.Lines(lineOpened); ping < timeout/2 && (len(lines) > 0 || decided == 0) {
				t.Errorf("%d decided; %q", decided, lines)
			}
			must(t, server.Freeze())
			until(t, "the breaker opens", func() bool {
				_, _ = starvedCrowd(t, s, timeout)
				return s.nodes.queue(0).outage() != nil
			})
			must(t, server.Thaw())
		})
	}
}

// stalledConn is a connection of a process that gets no processor time between the end of a
// write and the deadline of the read.
type stalledConn struct {
	net.Conn
	stalls   *atomic.Bool
	deadline time.Time
	wrote    bool
}

func (c *stalledConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (c *stalledConn) Write(p []byte) (int, error) {
	c.wrote = true
	return c.Conn.Write(p)
}

func (c *stalledConn) Read(p []byte) (int, error) {
	if c.wrote && c.stalls.Load() {
		time.Sleep(time.Until(c.deadline) + time.Millisecond)
	}
	c.wrote = false
	return c.Conn.Read(p)
}

// Replies that had arrived when the deadline was over do not open the breaker.
func TestBreaker_StalledProcess(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	var stalls atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if stalls.Load() {
			return conn, err // opening it would fail too
		}
		return &stalledConn{Conn: conn, stalls: &stalls}, err
	}})
	defer client.Close()
	s, err := New(t.Context(), client, Config{Timeout: 500 * time.Millisecond, Refresh: time.Hour})
	must(t, err)
	defer s.Close()
	p := newProbe(t, s)
	d := p.demand("rule", 1, ample)
	p.take(d)
	stalls.Store(true)
	var out store.Outcome
	for range 2 * failuresInRow {
		_ = s.Take(t.Context(), []store.Demand{d}, &out) // its caller has left when the answer comes
	}
	stalls.Store(false)
	if o := s.nodes.queue(0).outage(); o != nil {
		t.Error(o.cause)
	}
}

// At a deadline that is over, a reply that has arrived is read. Without one the timeout says
// whether the server had enough time.
func TestLateConn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	defer conn.Close()
	peer, err := listener.Accept()
	must(t, err)
	defer peer.Close()
	const timeout = 2 * time.Second
	c := readLate(conn, timeout)
	buffer := make([]byte, 10)
	read := func(deadline time.Time) (int, error) {
		must(t, c.SetReadDeadline(deadline))
		return c.Read(buffer)
	}
	write := func() {
		must(t, c.SetWriteDeadline(time.Time{}))
		_, err := c.Write([]byte("call"))
		must(t, err)
	}
	var own ownDelay

	write()
	_, err = peer.Write([]byte("reply"))
	must(t, err)
	if n, err := read(time.Now().Add(-time.Second)); n != 5 || err != nil {
		t.Errorf("a reply that had arrived: %d, %v", n, err)
	}
	write()
	if _, err := read(time.Now().Add(timeout / 20)); !errors.As(err, &own) || !isTimeout(err) {
		t.Errorf("a server that had little time: %v", err)
	}
	write()
	if _, err := read(time.Now().Add(timeout)); errors.As(err, &own) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a server that had its time: %v", err)
	}
	must(t, c.SetWriteDeadline(time.Now().Add(-time.Second)))
	if _, err := c.Write([]byte("call")); !errors.As(err, &own) {
		t.Errorf("a call that was not sent: %v", err)
	}
}
