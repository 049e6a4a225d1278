package redisrules

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// A key of a wrong type fails a change before anything is written: Redis does not
// roll back scripts.
func TestPut_WrongType(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	for name, key := range map[string]func(s *Source) string{
		"heads": func(s *Source) string { return s.key("heads") }, "names": func(s *Source) string { return s.key("names") },
		"current": func(s *Source) string { return s.key("current") },
		"bytes":   func(s *Source) string { return s.key("bytes") }, "history": func(s *Source) string { return s.key("history:limits") },
		"documents": func(s *Source) string { return s.key("documents:limits") }, "changes": func(s *Source) string { return s.key("changes:limits") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, dial(t, toServer(t, srv)), Config{})
			mustPut(t, s, ruleSet(t, "limits", "a"), 0)
			hurt := key(s)
			do(t, srv, "RENAME", hurt, hurt+".kept")
			do(t, srv, "SET", hurt, "x")
			for _, change := range []func() (int64, error){
				func() (int64, error) { return s.Put(t.Context(), ruleSet(t, "limits", "b"), by(1, "")) },
				func() (int64, error) { return s.Put(t.Context(), ruleSet(t, "limits", "a"), by(1, "")) },
				func() (int64, error) { return s.Delete(t.Context(), "limits", by(1, "")) },
			} {
				if _, err := change(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), "limits") {
					t.Errorf("with %s of another type: %v", name, err)
				}
			}
			do(t, srv, "RENAME", hurt+".kept", hurt)
			consistent(t, srv, s)
			mustPut(t, s, ruleSet(t, "limits", "b"), 1)
			consistent(t, srv, s)
		})
	}
}

// A full server refuses a change as a whole.
func TestPut_OutOfMemory(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	do(t, srv, "CONFIG", "SET", "maxmemory", "1")
	if _, err := s.Put(t.Context(), ruleSet(t, "limits", "b"), by(1, "")); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a full server: %v", err)
	}
	if _, err := s.Load(t.Context(), "limits"); err != nil {
		t.Error(err)
	}
	do(t, srv, "CONFIG", "SET", "maxmemory", "0")
	consistent(t, srv, s)
	mustPut(t, s, ruleSet(t, "limits", "b"), 1)
}

// A server that lost its data does not report rule sets as deleted.
func TestRevisions_LostData(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	do(t, srv, "FLUSHALL")
	heads, err := s.Revisions(t.Context(), []string{"limits"})
	if err != nil || len(heads) != 0 {
		t.Errorf("after a flush the heads are %v (%v)", heads, err)
	}
	if _, err := s.Load(t.Context(), "limits"); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("Load: %v", err)
	}
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
}

// Buckets and rules may share a prefix.
func TestKeys_ResetOfBuckets(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{Prefix: "fluxgate"})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	buckets, err := redisstore.Open(t.Context(), srv.URI(), redisstore.Config{Timeout: patience, Shards: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = buckets.Close() })
	engine, err := fluxgate.New(buckets, fluxgate.Static(ruleSet(t, "limits", "a")), fluxgate.WithOnFailure(rules.FailClosed))
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Check(t.Context(), &fluxgate.Request{RuleSet: "limits", Path: "/a/b", IP: netip.MustParseAddr("192.0.2.1")})
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	for _, what := range []store.Key{{RuleSet: "limits"}, {RuleSet: "limits", Rule: "a"}} {
		if _, err := buckets.Reset(t.Context(), store.Reset{Key: what}); err != nil {
			t.Fatal(err)
		}
	}
	consistent(t, srv, s)
	if v, err := s.Load(t.Context(), "limits"); err != nil || v.Revision != 1 {
		t.Errorf("after a reset: %v", err)
	}
	for _, key := range do(t, srv, "KEYS", "*").([]any) {
		rest, ours := strings.CutPrefix(key.(string), "fluxgate:{rules}:")
		if ours && len(rest) == 22 {
			t.Errorf("the key %q could be a bucket's", key)
		}
	}
}

// Operations end after the timeout, even if the server is frozen and the client
// has no timeout of its own.
func TestTimeout_Bound(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	client := dial(t, &redis.UniversalOptions{Addrs: srv.Addrs(), ReadTimeout: -1, WriteTimeout: -1})
	s := newSource(t, client, Config{Timeout: 100 * time.Millisecond})
	until(t, "the rule set is there", func() bool {
		_, _ = s.Put(t.Context(), ruleSet(t, "limits", "a"), by(0, ""))
		v, err := s.Load(t.Context(), "limits")
		return err == nil && v.Revision == 1
	})
	if err := srv.Freeze(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for what, call := range map[string]func(context.Context) error{
		"Revisions": func(ctx context.Context) error { _, err := s.Revisions(ctx, []string{"limits"}); return err },
		"Load":      func(ctx context.Context) error { _, err := s.Load(ctx, "limits"); return err },
		"Put": func(ctx context.Context) error {
			_, err := s.Put(ctx, ruleSet(t, "limits", "b"), by(1, ""))
			return err
		},
	} {
		if err := call(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", what, err)
		}
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("three operations took %v", took)
	}
	if err := srv.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// Errors show no password.
func TestErrors_Password(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{Password: "hunter2-of-the-server"})
	for _, addr := range []string{srv.Addr(), "127.0.0.1:1"} {
		s := newSource(t, dial(t, &redis.UniversalOptions{Addrs: []string{addr}, Password: "hunter2-of-the-test", MaxRetries: -1}), Config{})
		_, put := s.Put(t.Context(), ruleSet(t, "limits", "a"), by(0, ""))
		_, load := s.Load(t.Context(), "limits")
		for _, err := range []error{put, load} {
			text := fmt.Sprintf("%v %+v %#v", err, err, err)
			if err == nil || strings.Contains(text, "hunter2") || !strings.Contains(err.Error(), `rule set "limits"`) {
				t.Errorf("%v", err)
			}
			if errors.Is(err, rules.ErrNotFound) {
				t.Errorf("an unreachable server is an empty source: %v", err)
			}
		}
	}
}

// An invalid config is rejected.
func TestConfig_Invalid(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	for _, config := range []Config{
		{Prefix: "a{b}"}, {Prefix: strings.Repeat("x", 65)}, {History: -1}, {History: 1 << 40}, {Timeout: -1}, {Timeout: time.Microsecond},
	} {
		if _, err := New(client, config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no client is accepted")
	}
	if _, err := New(client, Config{}); err != nil {
		t.Error(err)
	}
}
