package redisstore

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// beating is how often heartbeats are written in tests.
const beating = 20 * time.Millisecond

func countsEventually(t testing.TB, want int, stores ...*Store) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("all count %d gateways", want), func() bool {
		for _, s := range stores {
			if s.Gateways() != want {
				return false
			}
		}
		return true
	})
}

// All gateways count each other, and no longer count one that has ended.
func TestHeartbeat_Counts(t *testing.T) {
	for name, uri := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testenv.SharedStandalone(t).URI() },
		"cluster":    func(t testing.TB) string { return testenv.SharedCluster(t).URI() },
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{Prefix: "beat-" + rand.Text(), Refresh: beating}
			address := uri(t)
			stores := []*Store{openStore(t, address, config), openStore(t, address, config), openStore(t, address, config)}
			tool := openStore(t, address, Config{Prefix: config.Prefix, Refresh: beating, Uncounted: true})
			countsEventually(t, 3, append(stores, tool)...)
			if err := stores[2].Close(); err != nil {
				t.Fatal(err)
			}
			countsEventually(t, 2, stores[:2]...)
		})
	}
}

// The number of gateways stays as it was while Redis does not answer.
func TestHeartbeat_Outage(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	config := Config{Prefix: "beat", Refresh: beating}
	a, b := openStore(t, server.URI(), config), openStore(t, server.URI(), config)
	countsEventually(t, 2, a, b)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	frozen := time.Now()
	testenv.Eventually(t, "all entries have ended", func() bool {
		if a.Gateways() != 2 || b.Gateways() != 2 {
			t.Fatalf("%d and %d gateways while Redis does not answer, want 2", a.Gateways(), b.Gateways())
		}
		return time.Since(frozen) > 10*beatsMissed*beating
	})
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	countsEventually(t, 2, a, b)
}

// Heartbeats that are not sent, because the breaker is open, are not logged.
func TestHeartbeat_NotSent(t *testing.T) {
	log := new(testenv.LogBuffer)
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{Refresh: time.Hour, Logger: log.Logger()})
	until(t, "the first heartbeat is written", func() bool { return s.heartbeat.count.Load() == 1 })
	must(t, server.Freeze())
	s.nodes.queue(0).noteFailures()
	s.heartbeat.send(t.Context())
	must(t, server.Thaw())
	if lines := log.Lines("cannot write the heartbeat"); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
}

// The largest of the last counts is used: after an outage, or a restart of an
// empty Redis, the first gateway that writes finds no other.
func TestHeartbeat_DropsSlowly(t *testing.T) {
	s := &Store{config: Config{Refresh: time.Second}}
	s.heartbeat = newHeartbeat(s)
	now := time.Now()
	for i, c := range []struct{ counted, want int }{{1, 1}, {4, 4}, {1, 4}, {4, 4}, {2, 4}, {2, 4}, {2, 2}, {0, 2}, {-1, 2}, {-1, 1}, {maxGateways + 1, maxGateways}} {
		now = now.Add(time.Second)
		if s.heartbeat.counted(c.counted, now); s.Gateways() != c.want {
			t.Errorf("count %d is %d: %d gateways, want %d", i, c.counted, s.Gateways(), c.want)
		}
	}
	// Each node that answers again and each script that is loaded causes a count.
	for range 2 * beatsMissed {
		now = now.Add(100 * time.Millisecond)
		if s.heartbeat.counted(1, now); s.Gateways() != maxGateways {
			t.Fatalf("%d gateways after counts in quick succession", s.Gateways())
		}
	}
}

// The record is bounded, and entries that are invalid or never end are dropped.
func TestHeartbeat_UntrustedRecord(t *testing.T) {
	server := testenv.SharedStandalone(t)
	prefix := "beat-" + rand.Text()
	record := prefix + ":gateways"
	soon := time.Now().Add(time.Hour - time.Minute).UnixMilli()
	for id, value := range map[string]any{"never": "99999999999999999999999", "text": "soon", "empty": "", "past": "1 {}", "large": strings.Repeat("9", 100_000)} {
		if _, err := server.Do(t.Context(), "HSET", record, id, value); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, server.URI(), Config{Prefix: prefix, Refresh: beating})
	testenv.Eventually(t, "only this gateway is left", func() bool {
		n, err := server.Do(t.Context(), "HLEN", record)
		return err == nil && n == int64(1)
	})
	value, err := server.Do(t.Context(), "HGET", record, s.heartbeat.id)
	if text := fmt.Sprint(value); err != nil || len(text) > 20 {
		t.Errorf("entry of %d bytes, %v", len(text), err)
	}
	for i := range maxGateways + 500 {
		if _, err := server.Do(t.Context(), "HSET", record, fmt.Sprint("g", i), soon); err != nil {
			t.Fatal(err)
		}
	}
	countsEventually(t, maxGateways, s)
	other := openStore(t, server.URI(), Config{Prefix: prefix, Refresh: beating})
	countsEventually(t, maxGateways, other)
	if there, err := server.Do(t.Context(), "HEXISTS", record, other.heartbeat.id); err != nil || there != int64(0) {
		t.Errorf("added to a full record: %v, %v", there, err)
	}
}

// A record with so many entries that reading it delays Redis begins anew.
func TestHeartbeat_HugeRecord(t *testing.T) {
	server := testenv.SharedStandalone(t)
	prefix := "beat-" + rand.Text()
	command := []any{"HSET", prefix + ":gateways"}
	for i := range 10*maxGateways + 1 {
		command = append(command, fmt.Sprintf("%016x", i), time.Now().Add(50*time.Minute).UnixMilli())
	}
	if _, err := server.Do(t.Context(), command...); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, server.URI(), Config{Prefix: prefix, Refresh: beating})
	testenv.Eventually(t, "only this gateway is left", func() bool {
		n, err := server.Do(t.Context(), "HLEN", prefix+":gateways")
		return err == nil && n == int64(1)
	})
	countsEventually(t, 1, s)
}
