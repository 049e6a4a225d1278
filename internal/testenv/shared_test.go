package testenv

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
)

// Shared servers start once.
func TestShared_Once(t *testing.T) {
	t.Setenv(uriVariable, "")
	a, b := SharedStandalone(t), SharedStandalone(t)
	if a != b || !a.Owned() {
		t.Errorf("two servers: %s and %s", a.Addr(), b.Addr())
	}
	if a, b := SharedCluster(t), SharedCluster(t); a != b {
		t.Errorf("two clusters: %s and %s", a.Addr(), b.Addr())
	}
	if a, b := SharedSentinel(t), SharedSentinel(t); a != b {
		t.Errorf("two groups: %s and %s", a.Addr(), b.Addr())
	}
}

// Tests are skipped under -short.
func TestShared_Short(t *testing.T) {
	f := flag.Lookup("test.short")
	was := f.Value.String()
	must(t, f.Value.Set("true"))
	defer func() { must(t, f.Value.Set(was)) }()
	for name, call := range askAll {
		if o := observe(call); o.skipped == "" || o.failed != "" {
			t.Errorf("%s: skipped %q, failed %q", name, o.skipped, o.failed)
		}
	}
}

// Without redis-server the error says how to install it.
func TestShared_MissingProgram(t *testing.T) {
	skipShort(t)
	t.Setenv("PATH", t.TempDir())
	for name, call := range askAll {
		if strings.HasPrefix(name, "Shared") {
			continue // may be running already
		}
		o := observe(call)
		if o.skipped != "" || !strings.Contains(o.failed, "apt-get install -y redis-server") {
			t.Errorf("%s: skipped %q, failed %q", name, o.skipped, o.failed)
		}
	}
}

var askAll = map[string]func(testing.TB){
	"StartStandalone":  func(tb testing.TB) { StartStandalone(tb, Config{}) },
	"StartCluster":     func(tb testing.TB) { StartCluster(tb, Config{}) },
	"StartSentinel":    func(tb testing.TB) { StartSentinel(tb, Config{}) },
	"SharedStandalone": func(tb testing.TB) { SharedStandalone(tb) },
	"SharedCluster":    func(tb testing.TB) { SharedCluster(tb) },
	"SharedSentinel":   func(tb testing.TB) { SharedSentinel(tb) },
}

// A failed start of a shared server is not repeated.
func TestShared_StartFailure(t *testing.T) {
	skipShort(t)
	var slot shared[*Server]
	starts := 0
	for range 2 {
		o := observe(func(tb testing.TB) {
			slot.get(tb, func(context.Context) (*Server, error) {
				starts++
				return nil, errors.New("no luck")
			})
		})
		if !strings.Contains(o.failed, "no luck") {
			t.Errorf("failed with %q", o.failed)
		}
	}
	if starts != 1 {
		t.Errorf("started %d times", starts)
	}
	must(t, slot.close())
}

// A server of the environment variable is used and never stopped.
func TestShared_ForeignServer(t *testing.T) {
	server := StartStandalone(t, Config{Password: "pw"})
	t.Setenv(uriVariable, "redis://:pw@"+server.Addr()+"/3")
	var slot shared[*Server]
	s := slot.get(t, ownOrForeign)
	if s.Owned() || !s.Running() || s.Pid() != 0 {
		t.Errorf("owned %t, running %t, pid %d", s.Owned(), s.Running(), s.Pid())
	}
	run(t, s, "SET", "key", "value")
	if got, _ := server.Info(testContext(t), "keyspace"); !strings.HasPrefix(got["db3"], "keys=1,") {
		t.Errorf("database 3 has %q", got["db3"])
	}
	if want := "redis://:pw@" + server.Addr() + "/3"; s.URI() != want {
		t.Errorf("URI %s, want %s", s.URI(), want)
	}
	for name, hurt := range map[string]func() error{
		"Kill": s.Kill, "Stop": s.Stop, "Freeze": s.Freeze, "Thaw": s.Thaw,
		"Restart": func() error { return s.Restart(t.Context()) },
	} {
		if err := hurt(); !errors.Is(err, ErrNotOwned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, slot.close())
	ping(t, server)
}

// The URI of such a server may have a user and TLS.
func TestShared_ForeignURI(t *testing.T) {
	for name, tc := range map[string]struct{ uri, addr, err string }{
		"the default port":      {uri: "redis://example.test", addr: "example.test:6379"},
		"IPv6":                  {uri: "rediss://user:pw@[::1]:7000/2", addr: "[::1]:7000"},
		"no host":               {uri: "redis://", err: "not one host"},
		"several hosts":         {uri: "redis://a,b", err: "not one host"},
		"another scheme":        {uri: "http://a", err: "neither redis nor rediss"},
		"an invalid database":   {uri: "redis://a/x", err: "not a number"},
		"no password in errors": {uri: "redis://:hush@a:b", err: "not a URI"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := foreignServer(tc.uri)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "hush") {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			must(t, err)
			if s.Addr() != tc.addr {
				t.Errorf("address %s, want %s", s.Addr(), tc.addr)
			}
		})
	}
}
