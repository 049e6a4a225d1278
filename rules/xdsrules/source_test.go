package xdsrules

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/xdsserver"
	"github.com/fluxgate/fluxgate/rules"
)

// The configurations of the server are loaded, updated and removed, each response is
// acknowledged, and a watcher gets the ids of what has changed.
func TestSource_Updates(t *testing.T) {
	server := xdsserver.Start(t, nil)
	server.Set(t, "1", limit("shop", 5), limit("blog", 7))
	s, log := open(t, Config{Server: server.Addr(), NodeMetadata: map[string]string{"zone": "a"}})
	wantCapacity(t, s, "shop", 5)
	wantCapacity(t, s, "blog", 7)
	testenv.Eventually(t, "version 1 is acknowledged", func() bool { return server.Acked("1") })
	if r := server.Requests()[0]; r.GetNode().GetId() != xdsserver.Node || r.GetNode().GetMetadata().AsMap()["zone"] != "a" || r.GetVersionInfo() != "" {
		t.Errorf("the first request is %v", r)
	}
	changed := watch(t, s)
	if id := changed(); id != "" {
		t.Errorf("the first call of the watcher is with %q", id)
	}
	before, _ := head(t, s, "blog")

	server.Set(t, "2", limit("shop", 6), limit("blog", 7))
	if id := changed(); id != "shop" {
		t.Errorf("the watcher was called with %q, want shop", id)
	}
	wantCapacity(t, s, "shop", 6)
	testenv.Eventually(t, "version 2 is acknowledged", func() bool { return server.Acked("2") })
	if now, _ := head(t, s, "blog"); now != before {
		t.Errorf("blog went from %+v to %+v without a change", before, now)
	}

	server.Set(t, "3", limit("shop", 6))
	if id := changed(); id != "blog" {
		t.Errorf("the watcher was called with %q, want blog", id)
	}
	if now, known := head(t, s, "blog"); !known || !now.Deleted {
		t.Errorf("the removed domain is at %+v", now)
	}
	if _, err := s.Load(t.Context(), "blog"); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("Load of the removed domain: %v", err)
	}
	if ids, err := s.IDs(t.Context()); err != nil || len(ids) != 1 || ids[0] != "shop" {
		t.Errorf("the ids are %v, %v", ids, err)
	}
	testenv.Eventually(t, "version 3 is acknowledged", func() bool { return server.Acked("3") })
	if n := len(log.Lines("accepted the rate limit configuration")); n != 3 {
		t.Errorf("%d lines about 3 changes:\n%s", n, log)
	}
	server.Set(t, "4") // nothing at all
	if id := changed(); id != "shop" || !s.Loaded() || s.Err() != nil {
		t.Errorf("after an empty response: %q, %v, %v", id, s.Loaded(), s.Err())
	}
}

// watch returns a function that waits for the next call of a watcher.
func watch(t *testing.T, s *Source) func() string {
	t.Helper()
	ids, ended := make(chan string), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = s.Watch(ctx, func(id string) {
			select {
			case ids <- id:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() string {
		select {
		case id := <-ids:
			return id
		case <-time.After(time.Minute):
			t.Fatal("the watcher was not called")
			return ""
		}
	}
}

// An invalid response is refused with the resource and what is wrong with it, and the last
// accepted one stays in effect.
func TestSource_Refuses(t *testing.T) {
	server := xdsserver.Start(t, nil)
	server.Set(t, "1", limit("shop", 5))
	s, log := open(t, Config{Server: server.Addr()})
	wantCapacity(t, s, "shop", 5)

	bad := limit("blog", 7)
	bad.Descriptors[0].RateLimit.Unit = pb.RateLimitUnit_UNKNOWN
	server.Set(t, "2", limit("shop", 6), bad)
	const want = `resource "blog": domain "blog": descriptors[0].rate_limit.unit: must be second`
	testenv.Eventually(t, "the response is refused three times", func() bool { return len(server.Nacks()) >= 3 })
	if got := server.Nacks()[0]; !strings.Contains(got, want) {
		t.Errorf("the response is refused with %q, want %q in it", got, want)
	}
	wantCapacity(t, s, "shop", 5)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `version "2"`) {
		t.Errorf("the state is %v", err)
	}
	if n := len(log.Lines("rejected the rate limit configuration")); n != 1 {
		t.Errorf("%d lines about one invalid version:\n%s", n, log)
	}
	for _, r := range server.Requests() {
		if r.GetErrorDetail() != nil && r.GetVersionInfo() != "1" {
			t.Errorf("the refusal has the version %q, not that of the last accepted response", r.GetVersionInfo())
		}
	}
	server.Set(t, "3", limit("shop", 8))
	testenv.Eventually(t, "version 3 is acknowledged", func() bool { return server.Acked("3") })
	wantCapacity(t, s, "shop", 8)
	if s.Err() != nil {
		t.Errorf("the state is %v after a valid response", s.Err())
	}
}

// The pauses grow: between attempts to connect, at random so that many clients do not come
// at once, and before a response is refused again, which servers send again at once.
func TestSource_Pauses(t *testing.T) {
	pauses := func(server *xdsserver.Server, n int) []time.Duration {
		waits := make(chan time.Duration)
		open(t, Config{Server: server.Addr(), pause: func(ctx context.Context, d time.Duration) error {
			select {
			case waits <- d:
			case <-ctx.Done():
			}
			return ctx.Err()
		}})
		var all []time.Duration
		for range n {
			all = append(all, <-waits)
		}
		return all
	}
	for i, got := range pauses(xdsserver.New(t, nil), 8) {
		if wait := min(minPause<<i, maxPause); got < wait/2 || got > wait*3/2 {
			t.Errorf("pause %d between attempts is %v, want %v and a half more or less", i, got, wait)
		}
	}
	server := xdsserver.Start(t, nil)
	server.Set(t, "1", &pb.RateLimitConfig{Name: "invalid"})
	for i, got := range pauses(server, 6) {
		if want := min(minRefusePause<<i, maxRefusePause); got != want {
			t.Errorf("pause %d before a refusal is %v, want %v", i, got, want)
		}
	}
}

// A first response that is invalid leaves the source without rules, with the reason.
func TestSource_FirstRefused(t *testing.T) {
	server := xdsserver.Start(t, nil)
	other := limit("shop", 6)
	other.Name = "other"
	server.Set(t, "1", limit("shop", 5), other)
	s, _ := open(t, Config{Server: server.Addr()})
	if _, err := s.Load(t.Context(), "shop"); err == nil || !strings.Contains(err.Error(), "has the same domain") {
		t.Errorf("Load: %v", err)
	}
	if s.Loaded() {
		t.Error("it counts as loaded")
	}
}

// A server that is away is no error of Open. Rules arrive when it is there, stay when it
// is away again, and come anew from another one whose version is the same.
func TestSource_ServerAway(t *testing.T) {
	server := xdsserver.New(t, nil)
	s, log := open(t, Config{Server: server.Addr()})
	if _, err := s.Revisions(t.Context(), []string{"shop"}); err == nil || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("Revisions while the server is away: %v", err)
	}
	server.Run(t)
	server.Set(t, "1", limit("shop", 5))
	testenv.Eventually(t, "the rules arrive", s.Loaded)
	wantCapacity(t, s, "shop", 5)

	server.Stop()
	testenv.Eventually(t, "the loss is noticed", func() bool { return s.Err() != nil })
	wantCapacity(t, s, "shop", 5)

	server.Set(t, "1", limit("shop", 6))
	server.Run(t)
	testenv.Eventually(t, "the rules are current", func() bool { return s.Err() == nil })
	wantCapacity(t, s, "shop", 6)
	testenv.Eventually(t, "the acceptance is logged", func() bool { return len(log.Lines("accepted the rate limit configuration")) >= 2 })
	for text, want := range map[string]int{"cannot get rules from the xDS server": 1, "lost the connection to the xDS server": 1, "accepted the rate limit configuration": 2} {
		if n := len(log.Lines(text)); n != want {
			t.Errorf("%d lines with %q, want %d:\n%s", n, text, want, log)
		}
	}
}

// A server that sends nothing leaves calls waiting until their context ends.
func TestSource_NoResponse(t *testing.T) {
	server := xdsserver.Start(t, nil) // without a snapshot
	s, _ := open(t, Config{Server: server.Addr()})
	testenv.Eventually(t, "the request is there", func() bool { return len(server.Requests()) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Load(ctx, "shop")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), errNoResponse.Error()) {
		t.Errorf("Load: %v", err)
	}
	server.Set(t, "1", limit("shop", 5))
	wantCapacity(t, s, "shop", 5)
}

// A response that is too large or has too many resources changes nothing.
func TestSource_Bounds(t *testing.T) {
	server := xdsserver.Start(t, nil)
	server.Set(t, "1", limit("shop", 5))
	s, _ := open(t, Config{Server: server.Addr(), MaxMessage: 1_000_000})
	wantCapacity(t, s, "shop", 5)
	many := make([]*pb.RateLimitConfig, maxResources+1)
	for i := range many {
		many[i] = limit("d"+strings.Repeat("x", i%50)+string(rune('a'+i/50)), 1)
	}
	server.Set(t, "2", many...)
	testenv.Eventually(t, "the response is refused", func() bool { return len(server.Nacks()) > 0 })
	if got := server.Nacks()[0]; !strings.Contains(got, "1001 resources") {
		t.Errorf("the response is refused with %q", got)
	}
	server.Set(t, "3", limit(strings.Repeat("x", 1_000_000), 1))
	testenv.Eventually(t, "the message is refused", func() bool { return s.Err() != nil && strings.Contains(s.Err().Error(), "larger than max") })
	wantCapacity(t, s, "shop", 5)
}

// With TLS the client trusts the authority only, and has a certificate of its own.
func TestSource_TLS(t *testing.T) {
	certs, others := testenv.NewCertificates(t), testenv.NewCertificates(t)
	server := xdsserver.Start(t, certs)
	server.Set(t, "1", limit("shop", 5))
	files := &TLS{CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile}
	s, _ := open(t, Config{Server: server.Addr(), TLS: files})
	wantCapacity(t, s, "shop", 5)
	for name, c := range map[string]Config{
		"plain text":                 {},
		"another authority":          {TLS: &TLS{CAFile: others.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile}},
		"no certificate":             {TLS: &TLS{CAFile: certs.CAFile}},
		"certificate of another CA":  {TLS: &TLS{CAFile: certs.CAFile, CertFile: others.CertFile, KeyFile: others.KeyFile}},
		"another name of the server": {TLS: &TLS{CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile, ServerName: "example.com"}},
		"missing file":               {TLS: &TLS{CAFile: certs.CAFile + ".none"}},
		"key as authority":           {TLS: &TLS{CAFile: certs.KeyFile}},
		"certificate without key":    {TLS: &TLS{CAFile: certs.CAFile, CertFile: certs.CertFile}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Server = server.Addr()
			s, _ := open(t, c)
			if _, err := s.Load(t.Context(), "shop"); err == nil {
				t.Error("the rules were loaded")
			}
		})
	}
	t.Run("name of the server", func(t *testing.T) {
		named := *files
		named.ServerName = "localhost"
		s, _ := open(t, Config{Server: server.Addr(), TLS: &named})
		wantCapacity(t, s, "shop", 5)
	})
}

// A config without an address is refused.
func TestOpen_Invalid(t *testing.T) {
	for _, c := range []Config{{}, {Server: "envoy-gateway"}, {Server: "localhost:1", MaxMessage: -1}} {
		if s, err := Open(t.Context(), c); err == nil {
			t.Errorf("%+v was opened", c)
			_ = s.Close()
		}
	}
}
