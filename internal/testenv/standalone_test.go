package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// A server answers with every configuration.
func TestStandalone_Answers(t *testing.T) {
	for name, cfg := range map[string]Config{
		"plain":                      {},
		"with a password":            {Password: "s3cret @:/"},
		"with TLS":                   {TLS: true},
		"with mutual TLS":            {MutualTLS: true},
		"with TLS and an ACL user":   {TLS: true, Users: []User{{Name: "gate", Password: "pw"}}},
		"with users and persistence": {Users: []User{{Name: "a", Password: "x"}, {Name: "b", Password: "y"}}, Persist: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := StartStandalone(t, cfg)
			ping(t, s)
			if !s.Owned() || s.Pid() == 0 || !s.Running() {
				t.Errorf("owned %t, pid %d, running %t", s.Owned(), s.Pid(), s.Running())
			}
			// The URI and the authority are enough to connect.
			same, err := foreignServer(s.URI())
			must(t, err)
			if same.tls != nil {
				same.tls = s.TLSConfig()
			}
			run(t, same, "PING")
			if s.TLSConfig() == nil != strings.HasPrefix(s.URI(), "redis://") {
				t.Errorf("URI %s, TLS %t", s.URI(), s.TLSConfig() != nil)
			}
		})
	}
}

// A server with users rejects other clients.
func TestStandalone_Users(t *testing.T) {
	ctx := testContext(t)
	s := StartStandalone(t, Config{
		MutualTLS: true,
		Users:     []User{{Name: "gate", Password: "pw", Rules: "~fg:* +get +set"}},
	})
	refused := func(user, password string) string {
		conn, err := connect(ctx, s.Addr(), s.TLSConfig())
		must(t, err)
		defer conn.close()
		if err := conn.login(user, password, 0); err != nil {
			return err.Error()
		}
		if _, err := conn.do("GET", "fg:1"); err != nil {
			return err.Error()
		}
		_, err = conn.do("GET", "other")
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := refused("gate", "pw"); !strings.HasPrefix(got, "NOPERM") {
		t.Errorf("a key outside the user's rules: %q", got)
	}
	if got := refused("gate", "wrong"); !strings.Contains(got, "WRONGPASS") {
		t.Errorf("a wrong password: %q", got)
	}
	if got := refused("", ""); !strings.Contains(got, "NOAUTH") {
		t.Errorf("no password: %q", got)
	}

	bare := s.TLSConfig()
	bare.Certificates = nil
	for name, conf := range map[string]*tls.Config{"without a client certificate": bare, "without TLS": nil} {
		conn, err := connect(ctx, s.Addr(), conf)
		if err != nil {
			continue
		}
		// With TLS 1.3 the client gets the error at the first read.
		if _, err := conn.do("PING"); err == nil || errors.As(err, new(ReplyError)) {
			t.Errorf("%s the server answered: %v", name, err)
		}
		conn.close()
	}
}

// After Kill data is lost unless it is persistent.
func TestStandalone_Kill(t *testing.T) {
	for name, tc := range map[string]struct {
		persist bool
		want    any
	}{
		"without persistence the server is empty": {false, nil},
		"with persistence every write survives":   {true, "value"},
	} {
		t.Run(name, func(t *testing.T) {
			s := StartStandalone(t, Config{Persist: tc.persist})
			run(t, s, "SET", "key", "value")
			addr, pid := s.Addr(), s.Pid()
			must(t, s.Kill())
			if alive(pid) || s.Running() || s.Pid() != 0 {
				t.Fatal("the server has not ended")
			}
			if _, err := s.Do(testContext(t), "PING"); err == nil {
				t.Fatal("a killed server answered")
			}
			if err := s.Kill(); !errors.Is(err, errNotRunning) {
				t.Errorf("a second Kill: %v", err)
			}
			must(t, s.Restart(testContext(t)))
			if s.Addr() != addr || s.Pid() == pid {
				t.Errorf("restarted as pid %d on %s, was pid %d on %s", s.Pid(), s.Addr(), pid, addr)
			}
			if got := run(t, s, "GET", "key"); got != tc.want {
				t.Errorf("GET answered %v, want %v", got, tc.want)
			}
		})
	}
}

// A server can be stopped and restarted.
func TestStandalone_Restart(t *testing.T) {
	s := StartStandalone(t, Config{})
	pid := s.Pid()
	must(t, s.Stop())
	if alive(pid) {
		t.Fatal("the server has not ended")
	}
	must(t, s.Restart(testContext(t)))
	must(t, s.Freeze())
	must(t, s.Restart(testContext(t))) // while it runs, even frozen
	ping(t, s)
}

// A frozen server answers again after thawing.
func TestStandalone_Freeze(t *testing.T) {
	s := StartStandalone(t, Config{})
	run(t, s, "SET", "key", "value")
	must(t, s.Freeze())
	if s.Running() {
		t.Error("a frozen server counts as running")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Do(ctx, "PING")
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Fatalf("a frozen server answered %v, want a timeout", err)
	}
	must(t, s.Thaw())
	if got := run(t, s, "GET", "key"); got != "value" {
		t.Errorf("GET after Thaw answered %v", got)
	}
}

// Processes and files are removed after the test.
func TestStandalone_Cleanup(t *testing.T) {
	skipShort(t)
	var s *Server
	var pid int
	o := observe(func(tb testing.TB) {
		s = StartStandalone(tb, Config{TLS: true})
		pid = s.Pid()
		if err := s.Freeze(); err != nil { // also if frozen
			tb.Fatal(err)
		}
	})
	if o.failed != "" || pid == 0 {
		t.Fatalf("pid %d, failed: %s", pid, o.failed)
	}
	if alive(pid) {
		t.Errorf("pid %d has not ended", pid)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory: %v", err)
	}
}

// Replies have their Go types, and Info returns statistics.
func TestStandalone_Statistics(t *testing.T) {
	s := StartStandalone(t, Config{})
	for _, tc := range []struct {
		script string
		want   any
	}{
		{"return 7", int64(7)},
		{"return 'bulk\\r\\n'", "bulk\r\n"},
		{"return redis.status_reply('FINE')", "FINE"},
		{"return false", nil},
	} {
		if got := run(t, s, "EVAL", tc.script, 0); got != tc.want {
			t.Errorf("%s answered %#v, want %#v", tc.script, got, tc.want)
		}
	}
	list, _ := run(t, s, "EVAL", "return {1, {'a'}, redis.error_reply('MINE only')}", 0).([]any)
	if len(list) != 3 || list[0] != int64(1) || list[1].([]any)[0] != "a" || list[2] != ReplyError("MINE only") {
		t.Errorf("a nested array: %#v", list)
	}
	_, err := s.Do(testContext(t), "EVALSHA", strings.Repeat("0", 40), 0)
	var reply ReplyError
	if !errors.As(err, &reply) || !strings.HasPrefix(string(reply), "NOSCRIPT") {
		t.Errorf("EVALSHA of an unknown script: %v", err)
	}
	stats, err := s.Info(testContext(t), "commandstats")
	must(t, err)
	if !strings.HasPrefix(stats["cmdstat_eval"], "calls=5,") {
		t.Errorf("EVAL statistics: %q", stats["cmdstat_eval"])
	}
}

// The error of a failed start has the log.
func TestStandalone_StartFailure(t *testing.T) {
	skipShort(t)
	o := observe(func(tb testing.TB) { StartStandalone(tb, Config{Directives: []string{"no-such-directive 1"}}) })
	if !strings.Contains(o.failed, "no-such-directive") {
		t.Errorf("failed with %q", o.failed)
	}
}

// An invalid config is rejected.
func TestConfig_Validation(t *testing.T) {
	for name, cfg := range map[string]Config{
		"a user without a password":   {Users: []User{{Name: "gate"}}},
		"a user with a space":         {Users: []User{{Name: "ga te", Password: "x"}}},
		"the administrator's name":    {Users: []User{{Name: adminName, Password: "x"}}},
		"the default user by name":    {Users: []User{{Name: "default", Password: "x"}}},
		"a directive with a new line": {Directives: []string{"save 1 1\nport 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := cfg.validate(); err == nil {
				t.Error("accepted")
			}
		})
	}
}
