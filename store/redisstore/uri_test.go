package redisstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

func TestOpen_URIs(t *testing.T) {
	for uri, want := range map[string]struct {
		mode           Mode
		addrs          string
		user, password string
		db             int
		tls            bool
	}{
		"redis://localhost":                       {mode: ModeAuto, addrs: "localhost:6379"},
		"redis://localhost/":                      {mode: ModeAuto, addrs: "localhost:6379"},
		"redis://localhost:":                      {mode: ModeAuto, addrs: "localhost:6379"},
		"redis://10.0.0.1:7000/3":                 {mode: ModeAuto, addrs: "10.0.0.1:7000", db: 3},
		"rediss://redis.example.com":              {mode: ModeAuto, addrs: "redis.example.com:6379", tls: true},
		"redis://[::1]:7000":                      {mode: ModeAuto, addrs: "[::1]:7000"},
		"redis://[2001:db8::7]":                   {mode: ModeAuto, addrs: "[2001:db8::7]:6379"},
		"redis://a,b:7000,[::1]":                  {mode: ModeCluster, addrs: "a:6379 b:7000 [::1]:6379"},
		"redis://a:1,redis://b:2":                 {mode: ModeCluster, addrs: "a:1 b:2"},
		"rediss://u:p@a,rediss://u:p@b,c":         {mode: ModeCluster, addrs: "a:6379 b:6379 c:6379", user: "u", password: "p", tls: true},
		"redis://u:p@a,redis://b":                 {mode: ModeCluster, addrs: "a:6379 b:6379", user: "u", password: "p"},
		"redis://a,b/0":                           {mode: ModeCluster, addrs: "a:6379 b:6379"},
		"redis://:secret@h":                       {mode: ModeAuto, addrs: "h:6379", password: "secret"},
		"redis://secret@h":                        {mode: ModeAuto, addrs: "h:6379", password: "secret"}, // as redis-cli -u reads it
		"redis://me:secret@h:1/2":                 {mode: ModeAuto, addrs: "h:1", user: "me", password: "secret", db: 2},
		"redis://me:p%40ss%3Aw%2Frd%25@h":         {mode: ModeAuto, addrs: "h:6379", user: "me", password: "p@ss:w/rd%"},
		"redis://m%C3%A9:a@b@c:d@h":               {mode: ModeAuto, addrs: "h:6379", user: "mé", password: "a@b@c:d"},
		"redis://me:a+b c@h":                      {mode: ModeAuto, addrs: "h:6379", user: "me", password: "a+b c"},
		"redis-sentinel://s1,s2:1/mymaster":       {mode: ModeSentinel, addrs: failoverAddr},
		"rediss-sentinel://me:secret@s1/mymaster": {mode: ModeSentinel, addrs: failoverAddr, user: "me", password: "secret", tls: true},
	} {
		t.Run(uri, func(t *testing.T) {
			got, err := parseURI(uri, Config{})
			if err != nil {
				t.Fatal(err)
			}
			client := got.connect(got.addrs[0], Config{})
			defer client.Close()
			if got.dials != nil {
				defer got.dials.close()
			}
			o := client.Options()
			if got.mode != want.mode || strings.Join(got.addrs, " ") != want.addrs || o.Username != want.user ||
				o.Password != want.password || o.DB != want.db || (o.TLSConfig != nil) != want.tls {
				t.Errorf("mode %s, addresses %v, user %q, password %q, database %d, TLS %t",
					got.mode, got.addrs, o.Username, o.Password, o.DB, o.TLSConfig != nil)
			}
			if o.MaxRetries != 0 && o.MaxRetries != -1 || !o.ContextTimeoutEnabled || !o.DisableIdentity {
				t.Errorf("%d retries, context timeouts %t", o.MaxRetries, o.ContextTimeoutEnabled)
			}
		})
	}
}

// password must not be shown, in plain text or encoded.
const (
	password        = "hunter2/geheim@pa:ss"
	encodedPassword = "hunter2%2Fgeheim%40pa%3Ass"
)

// badURIs are invalid in ways that are found without a server.
var badURIs = map[string]string{
	"no scheme":               "user:" + encodedPassword + "@localhost:6379",
	"an unknown scheme":       "http://user:" + encodedPassword + "@localhost",
	"no host":                 "redis://user:" + encodedPassword + "@",
	"an empty host":           "redis://user:" + encodedPassword + "@a,,b",
	"a word for a database":   "redis://user:" + encodedPassword + "@localhost/zero",
	"the password for a path": "redis://user@localhost/" + encodedPassword,
	"a negative database":     "redis://user:" + encodedPassword + "@localhost/-1",
	"a cluster's database":    "redis://user:" + encodedPassword + "@a,b/1",
	"two credentials":         "redis://u:" + encodedPassword + "@a,redis://v:" + encodedPassword + "@b",
	"two schemes":             "redis://u:" + encodedPassword + "@a,rediss://b",
	"options":                 "redis://user:" + encodedPassword + "@localhost?password=" + encodedPassword,
	"a bad escape":            "redis://user:%zz" + encodedPassword + "@localhost",
	"no @":                    "redis://user:" + encodedPassword,
	"# for @":                 "redis://user:" + encodedPassword + "#localhost:6379",
	"no @ before a port":      "redis://user:hunter2/geheim:6379",
	"a space in a host":       "redis://user:" + encodedPassword + "@local host",
	"a port out of range":     "redis://user:" + encodedPassword + "@localhost:65536",
	"port 0":                  "redis://user:" + encodedPassword + "@localhost:0",
	"sentinel, no master":     "redis-sentinel://user:" + encodedPassword + "@localhost",
	"sentinel, two names":     "redis-sentinel://user:" + encodedPassword + "@localhost/a/b",
	"sentinel, no host":       "redis-sentinel://user:" + encodedPassword + "@/master",
}

// leaks are spellings of a password, or of enough of it.
var leaks = []string{password, encodedPassword, "hunter2", "geheim", fmt.Sprintf("%d", []byte(password)), "aHVudGVyMi9nZWhlaW1AcGE6c3M"}

func checkLeaks(t testing.TB, what, text string) {
	t.Helper()
	for _, leak := range leaks {
		if strings.Contains(text, leak) {
			t.Errorf("%s shows the password: %s", what, text)
			return
		}
	}
}

// Errors about invalid URIs do not show them.
func TestOpen_InvalidURINotShown(t *testing.T) {
	for name, uri := range badURIs {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), uri, Config{})
			if err == nil {
				s.Close()
				t.Fatal("it was accepted")
			}
			t.Log(err)
			checkLeaks(t, "the error", fmt.Sprintf("%v %+v %#v", err, err, err))
		})
	}
}

// clientLines is what the client library prints itself. Its output can only be
// set before its first use.
var clientLines = new(logLines)

func init() {
	if os.Getenv(clientLogChild) == "" {
		redis.SetLogger(clientLog{clientLines})
	}
}

type clientLog struct{ *logLines }

func (l clientLog) Printf(_ context.Context, format string, v ...any) {
	fmt.Fprintf(l.logLines, format+"\n", v...)
}

// No error and no log line shows the password.
func TestOpen_PasswordNotShown(t *testing.T) {
	lines := new(logLines)
	before := len(clientLines.String())
	secured := testenv.Config{Users: []testenv.User{{Name: "gateway", Password: password}}}
	server := testenv.StartStandalone(t, secured)
	sentinel := testenv.StartSentinel(t, secured)
	foreign := testenv.StartStandalone(t, testenv.Config{Password: "another"})
	open := testenv.SharedStandalone(t)
	credentials := "gateway:" + encodedPassword + "@"
	var said []string
	hear := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s is no error", what)
			return
		}
		said = append(said, what+": "+fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	config := Config{
		Logger: lines.logger(), Secret: []byte(password), Timeout: 200 * time.Millisecond, Refresh: 20 * time.Millisecond,
		Prefix: "leak",
	}
	failing := map[string]string{
		"wrong password":          "redis://" + credentials + foreign.Addr(),
		"password where none is":  "redis://" + credentials + open.Addr(),
		"unreachable":             "redis://" + credentials + "127.0.0.1:1",
		"unknown host":            "redis://" + credentials + "no-such-host.invalid",
		"unreachable cluster":     "redis://" + credentials + "127.0.0.1:1,127.0.0.1:2",
		"cluster that is none":    "redis://" + credentials + server.Addr() + "," + server.Addr(),
		"TLS to a plain port":     "rediss://" + credentials + server.Addr(),
		"no sentinel":             "redis-sentinel://" + credentials + "127.0.0.1:1/master",
		"server, no sentinel":     "redis-sentinel://" + credentials + server.Addr() + "/master",
		"unknown master":          "redis-sentinel://" + credentials + sentinel.Addr() + "/nobody",
		"TLS to a plain sentinel": "rediss-sentinel://" + credentials + sentinel.Addr() + "/" + sentinel.MasterName(),
		"database out of range":   "redis://" + credentials + server.Addr() + "/4000",
	}
	for what, uri := range failing {
		for _, mode := range []Mode{ModeAuto, ModeStandalone, ModeSentinel, ModeCluster, "nonsense"} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			config := config
			config.Mode = mode
			if s, err := Open(ctx, uri, config); err != nil {
				hear(what+" as "+string(mode), err)
			} else {
				// A server without users takes any AUTH of HELLO as an error
				// and goes on: the error comes with the first command.
				s.Close()
			}
			cancel()
		}
	}
	for _, uri := range []string{server.URI(), sentinel.URI()} {
		s, err := Open(t.Context(), uri, config)
		if err != nil {
			t.Fatal(err)
		}
		h := s.Health(t.Context())
		encoded, err := json.Marshal(s.config.Secret)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, "printed: "+fmt.Sprintf("%v %+v %#v %s %v %+v %+v %s %#v %v %s",
			s, s, s.String(), s, config, config, h, s.config.Secret, s.config.Secret, s.config, encoded))
		config.Logger.Info("a store", "store", s, "config", config, "health", h)
		slog.New(slog.NewJSONHandler(lines, nil)).Info("a store", "secret", config.Secret, "health", h)
		if err := server.Kill(); err != nil && uri == server.URI() {
			t.Fatal(err)
		}
		for _, node := range sentinel.Servers() {
			if uri == sentinel.URI() {
				node.Freeze()
			}
		}
		var out store.Outcome
		hear("Take", s.Take(t.Context(), []store.Demand{newProbe(t, s).demand("rule", 1, year)}, &out))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = s.Reset(ctx, store.Reset{Key: store.Key{RuleSet: "set"}})
		hear("Reset", err)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("a reset of servers that are away: %v", err)
		}
		h = s.Health(ctx)
		said = append(said, fmt.Sprintf("%+v", h))
		cancel()
		s.Close()
		hear("Take after Close", s.Take(t.Context(), []store.Demand{newProbe(t, s).demand("rule", 1, year)}, &out))
	}
	logged := strings.Split(lines.String()+clientLines.String()[before:], "\n")
	for _, text := range append(said, logged...) {
		checkLeaks(t, "a text", text)
	}
	slices.Sort(said)
	t.Logf("%d errors and texts, %d lines of log", len(said), len(logged))
	if testing.Verbose() {
		t.Log(strings.Join(said, "\n"))
	}
}

func TestClean_Secrets(t *testing.T) {
	clean := target{secrets: []string{"", password, "zweites"}}.clean
	if err := clean(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	err := clean(fmt.Errorf("%w: AUTH %s and zweites", ErrDisagrees, password))
	if got := err.Error(); got != ErrDisagrees.Error()+": AUTH xxxxx and xxxxx" {
		t.Errorf("%q", got)
	}
	if !errors.Is(err, ErrDisagrees) || errors.Is(err, ErrUnavailable) {
		t.Error("errors.Is does not see through it")
	}
	checkLeaks(t, "%+v", fmt.Sprintf("%+v %v", err, err))
}

// New accepts every kind of go-redis client.
func TestNew_Clients(t *testing.T) {
	standalone, sentinel, cluster := testenv.SharedStandalone(t), testenv.SharedSentinel(t), testenv.SharedCluster(t)
	for name, test := range map[string]struct {
		client redis.UniversalClient
		mode   Mode
	}{
		"*redis.Client": {redis.NewClient(&redis.Options{Addr: standalone.Addr()}), ModeStandalone},
		"*redis.Client for one node of a cluster": {redis.NewClient(&redis.Options{Addr: cluster.Addr()}), ModeCluster},
		"*redis.ClusterClient":                    {redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()}), ModeCluster},
		"a failover client": {redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: sentinel.MasterName(), SentinelAddrs: sentinel.Addrs(),
		}), ModeSentinel},
		"a universal client of several hosts": {redis.NewUniversalClient(&redis.UniversalOptions{Addrs: cluster.Addrs()}), ModeCluster},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(t.Context(), test.client, Config{Timeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			useEverything(newProbe(t, s))
			if h := s.Health(t.Context()); h.Mode != test.mode {
				t.Errorf("mode %s, not %s", h.Mode, test.mode)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := test.client.Ping(t.Context()).Err(); err != nil {
				t.Errorf("the user's client was closed: %v", err)
			}
			test.client.Close()
		})
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": standalone.Addr()}})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{ring, nil} {
		if _, err := New(t.Context(), client, Config{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot use a %T", client)) {
			t.Errorf("of a %T: %v", client, err)
		}
	}
}

func TestNew_TLS(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{MutualTLS: true, Password: password})
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, TLSConfig: server.TLSConfig()})
	defer client.Close()
	s, err := New(t.Context(), client, Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	useEverything(newProbe(t, s))
}

func TestNew_InvalidConfig(t *testing.T) {
	for name, config := range map[string]Config{
		"mode":           {Mode: "clusters"},
		"prefix":         {Prefix: "a{b}"},
		"long prefix":    {Prefix: strings.Repeat("x", 65)},
		"timeout":        {Timeout: time.Microsecond},
		"no shards":      {Shards: -1},
		"too many":       {Shards: maxShards + 1},
		"refresh":        {Refresh: time.Millisecond},
		"sentinel of it": {Mode: ModeSentinel},
	} {
		s, err := Open(t.Context(), "redis://127.0.0.1:1", config)
		if err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
			continue
		}
		var dial *net.OpError
		if errors.As(err, &dial) {
			t.Errorf("%s: it was noticed only by a server: %v", name, err)
		}
	}
}

// logLines collects log lines.
type logLines struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
