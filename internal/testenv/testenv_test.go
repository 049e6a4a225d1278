package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain also checks that no goroutine of this package runs after the shared servers
// have ended.
func TestMain(m *testing.M) {
	code := Suite{M: m}.Run()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	if err := poll(ctx, leaked); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	cancel()
	os.Exit(code)
}

func leaked(context.Context) error {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		if i > 0 && bytes.Contains(stack, []byte("internal/testenv.")) {
			return fmt.Errorf("goroutine left behind:\n%s", stack)
		}
	}
	return nil
}

// testContext bounds the waits of a test.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on err.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run is Do for commands that must succeed.
func run(t *testing.T, s *Server, args ...any) any {
	t.Helper()
	reply, err := s.Do(testContext(t), args...)
	must(t, err)
	return reply
}

// ping sends a command as the test's user, not as the administrator.
func ping(t *testing.T, s *Server) {
	t.Helper()
	conn, err := connect(testContext(t), s.Addr(), s.TLSConfig())
	must(t, err)
	defer conn.close()
	must(t, conn.login(s.Username(), s.Password(), 0))
	reply, err := conn.do("PING")
	must(t, err)
	if reply != "PONG" {
		t.Fatalf("PING answered %v", reply)
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(rest, []byte("Z"))
}

// outsider is a TB that records failures and skips.
type outsider struct {
	testing.TB
	skipped, failed string
	cleanups        []func()
}

func (o *outsider) Helper()                  {}
func (o *outsider) Context() context.Context { return context.Background() }
func (o *outsider) Cleanup(f func())         { o.cleanups = append(o.cleanups, f) }
func (o *outsider) Failed() bool             { return o.failed != "" }
func (o *outsider) Log(...any)               {}

func (o *outsider) Errorf(format string, args ...any) { o.failed = fmt.Sprintf(format, args...) }

func (o *outsider) Skip(args ...any) {
	o.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

func (o *outsider) Fatal(args ...any) {
	o.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

func (o *outsider) Fatalf(format string, args ...any) {
	o.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// observe runs f like a test, with its cleanups.
func observe(f func(testing.TB)) *outsider {
	o := &outsider{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range o.cleanups {
				c()
			}
		}()
		f(o)
	}()
	<-done
	return o
}
