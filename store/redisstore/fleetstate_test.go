package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Stores that open at the same time write one fleet state.
func TestFleetState_WrittenOnce(t *testing.T) {
	for name, uri := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testenv.SharedStandalone(t).URI() },
		"cluster":    func(t testing.TB) string { return testenv.SharedCluster(t).URI() },
	} {
		t.Run(name, func(t *testing.T) {
			address := uri(t)
			for range 5 {
				prefix := "race-" + rand.Text()
				var wg sync.WaitGroup
				salts := make([][]byte, 16)
				for i := range salts {
					wg.Go(func() { salts[i] = openStore(t, address, Config{Prefix: prefix}).Salt() })
				}
				wg.Wait()
				for _, salt := range salts {
					if len(salt) != 16 || !bytes.Equal(salt, salts[0]) {
						t.Fatalf("salts %x and %x", salt, salts[0])
					}
				}
			}
		})
	}
}

// Of gateways that start together and disagree one side starts, and none is
// left with half a record.
func TestFleetState_ConcurrentDisagreement(t *testing.T) {
	uri := testenv.SharedStandalone(t).URI()
	for range 10 {
		prefix := "sides-" + rand.Text()
		var started [2]atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			config := Config{Prefix: prefix, Timeout: 2 * time.Second, Shards: 16}
			if i%2 == 1 {
				config.Shards, config.Secret = 32, []byte("the other secret, as long")
			}
			wg.Go(func() {
				s, err := Open(t.Context(), uri, config)
				switch {
				case err == nil:
					started[i%2].Add(1)
					s.Close()
				case !errors.Is(err, ErrDisagrees):
					t.Errorf("Open: %v", err)
				}
			})
		}
		wg.Wait()
		if a, b := started[0].Load(), started[1].Load(); a+b != 8 || a*b != 0 {
			t.Fatalf("%d of 8 gateways started on one side and %d of 8 on the other", a, b)
		}
	}
}

// A gateway with other settings than the fleet does not start.
func TestFleetState_Disagreement(t *testing.T) {
	server := testenv.SharedStandalone(t)
	prefix := "agree-" + rand.Text()
	first := Config{Prefix: prefix, Shards: 32, Secret: []byte("one secret of many bytes"), Timeout: time.Second}
	openStore(t, server.URI(), first)
	for name, test := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"in the shards":        {func(c *Config) { c.Shards = 64 }, "is 32 in the fleet state " + prefix + ":fleet and 64 here"},
		"in the secret":        {func(c *Config) { c.Secret = []byte("another secret of many bytes") }, "secret"},
		"by having no secret":  {func(c *Config) { c.Secret = nil }, "secret"},
		"by an empty secret":   {func(c *Config) { c.Secret = []byte{} }, "secret"},
		"in secret and shards": {func(c *Config) { c.Secret, c.Shards = nil, 1 }, "other settings than the fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			config := first
			test.change(&config)
			s, err := Open(t.Context(), server.URI(), config)
			if !errors.Is(err, ErrDisagrees) || s != nil {
				t.Fatalf("it started, or said %v", err)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q is not in %q", test.says, err)
			}
		})
	}
	// A gateway that agrees still starts: the others have changed nothing.
	openStore(t, server.URI(), first)

	for field, value := range map[string]string{fieldFormat: "not the format", fieldSalt: "not hexadecimal"} {
		if _, err := server.Do(t.Context(), "HSET", prefix+":fleet", field, value); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), server.URI(), first); !errors.Is(err, ErrDisagrees) {
			t.Errorf("with %s %q in the fleet state: %v", field, value, err)
		}
		if _, err := server.Do(t.Context(), "HSET", prefix+":fleet", field, format); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFleetState_RestoredAfterFlush(t *testing.T) {
	for name, start := range map[string]func(testing.TB) (string, []*testenv.Server){
		"standalone": func(t testing.TB) (string, []*testenv.Server) {
			s := testenv.StartStandalone(t, testenv.Config{})
			return s.URI(), []*testenv.Server{s}
		},
		"cluster": func(t testing.TB) (string, []*testenv.Server) {
			c := testenv.StartCluster(t, testenv.Config{})
			masters, err := c.Masters(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return c.URI(), masters
		},
	} {
		t.Run(name, func(t *testing.T) {
			uri, servers := start(t)
			const refresh = 50 * time.Millisecond
			running := openStore(t, uri, Config{Refresh: refresh})
			began := time.Now()
			for _, s := range servers {
				if _, err := s.Do(t.Context(), "FLUSHALL"); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the fleet state is back", func() bool {
				for _, s := range servers {
					reply, err := s.Do(t.Context(), "HGET", running.names.fleet(), fieldSalt)
					if err == nil && reply == hex.EncodeToString(running.Salt()) {
						return true
					}
				}
				return false
			})
			t.Logf("the fleet state was back %v after the flush; it is read every %v", time.Since(began).Round(time.Millisecond), refresh)
			if took := time.Since(began); took > refresh+slack {
				t.Errorf("it took %v", took)
			}
			if salt := openStore(t, uri, Config{}).Salt(); !bytes.Equal(salt, running.Salt()) {
				t.Errorf("a newcomer has salt %x, not %x", salt, running.Salt())
			}
		})
	}
}

// A new gateway that writes the fleet state before the running ones restore it
// splits the fleet. The running ones report that.
func TestFleetState_Changed(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	lines := new(logLines)
	s := openStore(t, server.URI(), Config{Refresh: 20 * time.Millisecond, Logger: lines.logger()})
	if _, err := server.Do(t.Context(), "HSET", s.names.fleet(), fieldSalt, strings.Repeat("ab", 16)); err != nil {
		t.Fatal(err)
	}
	until(t, "its health says so", func() bool {
		h := s.Health(context.Background())
		return errors.Is(h.Err, ErrDisagrees) && !h.Healthy()
	})
	if !strings.Contains(lines.String(), "the fleet state has changed") {
		t.Errorf("its log does not: %s", lines)
	}
}

// The secret changes the salt and is not stored in Redis.
func TestSecret_NotInRedis(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	const secret = "a secret nobody must see"
	with := newProbe(t, openStore(t, server.URI(), Config{Secret: []byte(secret)}))
	useEverything(with)
	reply, err := server.Do(t.Context(), "HGET", with.names.fleet(), fieldSalt)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(reply.(string))
	if err != nil || len(raw) != 16 {
		t.Fatalf("the salt in the fleet state is %v: %v", reply, err)
	}
	if bytes.Equal(raw, with.Salt()) || len(with.Salt()) < 16 {
		t.Errorf("the salt in the fleet state is the one that is used: %x", raw)
	}
	if again := openStore(t, server.URI(), Config{Secret: []byte(secret)}).Salt(); !bytes.Equal(again, with.Salt()) {
		t.Errorf("the same secret gives the salts %x and %x", again, with.Salt())
	}
	if bytes.Equal(saltWith(raw, []byte("the other secret, as long")), with.Salt()) {
		t.Error("another secret gives the same salt")
	}
	keys, err := server.Do(t.Context(), "KEYS", "*")
	if err != nil || len(keys.([]any)) == 0 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, key := range keys.([]any) {
		dump, err := server.Do(t.Context(), "DUMP", key)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprint(key, dump)
		for _, s := range []string{secret, hex.EncodeToString([]byte(secret)), hex.EncodeToString(with.Salt()), string(with.Salt())} {
			if strings.Contains(all, s) {
				t.Errorf("%q stands in %q", s, key)
			}
		}
	}
}

// The steps of docs/redis.md change the number of shards, or the secret.
func TestFleetState_Deleted(t *testing.T) {
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "redis-cli ")
	for found && !strings.HasPrefix(rest, "DEL ") {
		_, rest, found = strings.Cut(rest, "redis-cli ")
	}
	line, _, _ := strings.Cut(rest, "#")
	command := strings.Fields(line)
	if len(command) != 2 {
		t.Fatalf("docs/redis.md says %q", line)
	}

	server := testenv.StartStandalone(t, testenv.Config{})
	before, err := Open(t.Context(), server.URI(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	before.Close()
	after := Config{Shards: 128, Secret: []byte("another secret, as long"), Timeout: time.Second}
	if _, err := Open(t.Context(), server.URI(), after); !errors.Is(err, ErrDisagrees) {
		t.Fatalf("before: %v", err)
	}
	if _, err := server.Do(t.Context(), command[0], command[1]); err != nil {
		t.Fatal(err)
	}
	useEverything(newProbe(t, openStore(t, server.URI(), after)))
}
