package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// logins are credentials that change.
type logins struct{ atomic.Pointer[[2]string] }

func (l *logins) set(user, password string) { l.Store(&[2]string{user, password}) }

func (l *logins) current() (user, password string) {
	now := l.Load()
	return now[0], now[1]
}

// acl runs an ACL command on servers.
func acl(t testing.TB, servers []*testenv.Server, args ...any) {
	t.Helper()
	for _, server := range servers {
		if _, err := server.Do(t.Context(), append([]any{"ACL"}, args...)...); err != nil {
			t.Error(err)
		}
	}
}

// underLoad takes from a store with many callers until the result is called, which returns the
// number of takes.
func underLoad(t testing.TB, s *Store) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var taken, failed atomic.Int64
	demand := trialOf(t, s).demand(ample)
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				var out store.Outcome
				if err := s.Take(context.Background(), []store.Demand{demand}, &out); err != nil && failed.Add(1) < 5 {
					t.Error(err)
				}
				taken.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() int64 {
		cancel()
		all.Wait()
		return taken.Load()
	}
}

// No call fails while users replace each other: Redis closes the connections of a user that is
// deleted. Nor does one fail because the subscription to announcements moves.
func TestCredentials_UsersReplaced(t *testing.T) {
	config := testenv.Config{Users: []testenv.User{{Name: "operator", Password: "operator-password"}}}
	standalone := testenv.StartStandalone(t, config)
	cluster := testenv.StartCluster(t, config)
	for name, c := range map[string]struct {
		addrs   []string
		servers []*testenv.Server
	}{
		"standalone": {standalone.Addrs(), []*testenv.Server{standalone}},
		"cluster":    {cluster.Addrs(), cluster.Nodes()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			create := func(user string) { acl(t, c.servers, "SETUSER", user, "on", ">of-"+user, "~*", "&*", "+@all") }
			create("user0")
			var now logins
			now.set("user0", "of-user0")
			log := new(testenv.LogBuffer)
			s := openStore(t, "redis://"+strings.Join(c.addrs, ","), Config{Timeout: 5 * time.Second, Credentials: now.current, Logger: log.Logger()})
			stop := underLoad(t, s)
			for i := 1; i <= 3; i++ {
				user := fmt.Sprint("user", i)
				create(user)
				now.set(user, "of-"+user)
				time.Sleep(2 * time.Second) // docs/security.md: a server uses new credentials within a second
				acl(t, c.servers, "DELUSER", fmt.Sprint("user", i-1))
			}
			if taken := stop(); taken < 1_000 {
				t.Errorf("only %d takes", taken)
			}
			if lines := log.Lines("level=WARN"); len(lines) > 0 {
				t.Errorf("it logs %q", lines)
			}
		})
	}
}

// Credentials that the server refuses change nothing but the log, which does not show them, and
// are used once it accepts them.
func TestCredentials_Refused(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "operator", Password: "operator-password"}}})
	servers := []*testenv.Server{server}
	acl(t, servers, "SETUSER", "app", "on", ">former-password", "~*", "&*", "+@all")
	var now logins
	now.set("app", "former-password")
	log := new(testenv.LogBuffer)
	s := openStore(t, "redis://"+server.Addr(), Config{Timeout: 5 * time.Second, Credentials: now.current, Logger: log.Logger()})
	stop := underLoad(t, s)
	now.set("app", "latest-password")
	testenv.Eventually(t, "it logs that the password is refused", func() bool {
		return len(log.Lines("cannot connect to Redis with the new credentials")) > 0
	})
	if text := log.String(); strings.Contains(text, "former-password") || strings.Contains(text, "latest-password") || !strings.Contains(text, "WRONGPASS") {
		t.Errorf("it logs %s", text)
	}
	former := s.nodes.queue(0).client.Load()
	acl(t, servers, "SETUSER", "app", ">latest-password")
	testenv.Eventually(t, "the connections are replaced", func() bool { return s.nodes.queue(0).client.Load() != former })
	acl(t, servers, "SETUSER", "app", "<former-password")
	stop()
	if err := s.nodes.queue(0).client.Load().Get(t.Context(), "any").Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Error(err)
	}
}

// provider is a provider of go-redis whose credentials change.
type provider struct {
	mu        sync.Mutex
	current   auth.Credentials
	listeners map[auth.CredentialsListener]bool
}

func (p *provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[l] = true
	return p.current, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, l)
		return nil
	}, nil
}

func (p *provider) set(user, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = auth.NewBasicCredentials(user, password)
	for l := range p.listeners {
		l.OnNext(p.current)
	}
}

// A client with a provider of credentials lends it to the store, which ends its subscription.
func TestCredentials_ProviderOfAClient(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "operator", Password: "operator-password"}}})
	servers := []*testenv.Server{server}
	acl(t, servers, "SETUSER", "one", "on", ">password-one", "~*", "&*", "+@all")
	acl(t, servers, "SETUSER", "two", "on", ">password-two", "~*", "&*", "+@all")
	p := &provider{listeners: map[auth.CredentialsListener]bool{}}
	p.set("one", "password-one")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), StreamingCredentialsProvider: p})
	defer client.Close()
	s, err := New(t.Context(), client, Config{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	stop := underLoad(t, s)
	former := s.nodes.queue(0).client.Load()
	p.set("two", "password-two")
	testenv.Eventually(t, "the connections are replaced", func() bool { return s.nodes.queue(0).client.Load() != former })
	time.Sleep(100 * time.Millisecond) // calls over the former connections end
	acl(t, servers, "DELUSER", "one")
	stop()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(p.listeners) > 0 {
		t.Errorf("%d subscriptions are left", len(p.listeners))
	}
}
