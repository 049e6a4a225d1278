package redisrules

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// Ten thousand rules can be put and loaded.
func TestPut_TenThousandRules_NoRace(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	ids := func(end string) []string {
		list := make([]string, rules.MaxRules)
		for i := range list {
			list[i] = fmt.Sprintf("a-rule-with-a-name-of-some-length-%05d-%s", i, end)
		}
		return list
	}
	set := ruleSet(t, "limits", ids("1")...)
	data := document(t, set)
	took := func(what string, call func() error) {
		t.Helper()
		before := scriptTime(t, srv)
		if err := call(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d rules, %d bytes: the server took %v to %s", set.Len(), len(data), scriptTime(t, srv)-before, what)
	}
	took("put them", func() error { _, err := s.Put(t.Context(), set, by(0, "")); return err })
	took("replace them", func() error { _, err := s.Put(t.Context(), ruleSet(t, "limits", ids("2")...), by(1, "")); return err })
	took("put them back", func() error { _, err := s.Put(t.Context(), set, by(2, "")); return err })
	took("load them", func() error {
		v, err := s.Load(t.Context(), "limits")
		if err == nil && (v.Revision != 3 || v.RuleSet.Len() != rules.MaxRules) {
			err = errors.New("loaded something else")
		}
		return err
	})
	consistent(t, srv, s)

	took("delete them", func() error { _, err := s.Delete(t.Context(), "limits", by(3, "")); return err })
	consistent(t, srv, s)
}

// scriptTime returns how long the server has spent in scripts.
func scriptTime(t testing.TB, srv *testenv.Server) time.Duration {
	t.Helper()
	_, bySHA := calls(t, srv, "evalsha")
	_, whole := calls(t, srv, "eval")
	return bySHA + whole
}

// countedConn counts bytes.
type countedConn struct {
	net.Conn
	sent, received *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// Reading revisions is one small read, whatever the size of the rule sets.
func TestRevisions_Bytes(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	var sent, received atomic.Int64
	client := redis.NewClient(&redis.Options{
		Addr: srv.Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countedConn{conn, &sent, &received}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	s := newSource(t, client, Config{Prefix: "fluxgate"})
	var ids []string
	for i := range 10 {
		id := fmt.Sprintf("api-limits-%d", i)
		mustPut(t, s, ruleSet(t, id, id), 0)
		ids = append(ids, id)
	}
	for _, n := range []int{1, 10} {
		before, _ := calls(t, srv, "hmget")
		sentBefore, receivedBefore := sent.Load(), received.Load()
		heads, err := s.Revisions(t.Context(), ids[:n])
		if err != nil || len(heads) != n {
			t.Fatal(heads, err)
		}
		up, down := sent.Load()-sentBefore, received.Load()-receivedBefore
		t.Logf("an unchanged poll of %d rule sets: %d bytes sent, %d received", n, up, down)
		if after, _ := calls(t, srv, "hmget"); after != before+1 {
			t.Errorf("%d reads instead of one", after-before)
		}
		// Each rule set has two fields: its revision, and the commit that made it.
		if most := int64(60 + 45*n); up > most || down > most {
			t.Errorf("%d bytes sent and %d received for %d rule sets, more than %d", up, down, n, most)
		}
	}
}

// After many changes Redis has no more data than the limits of the history allow.
func TestHistory_Bounded(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	client := dial(t, toServer(t, srv))
	s := newSource(t, client, Config{History: 10})
	a, b := ruleSet(t, "limits", "a", "common"), ruleSet(t, "limits", "b", "common")
	size := func() string {
		var sizes []any
		for _, key := range []string{s.key("heads"), s.key("current"), s.key("bytes"), s.key("history:limits"), s.key("documents:limits"), s.key("changes:limits")} {
			sizes = append(sizes, do(t, srv, "HLEN", key))
		}
		return fmt.Sprintf("%v keys, %v fields, %v names", do(t, srv, "DBSIZE"), sizes, do(t, srv, "ZCARD", s.key("names")))
	}
	change := func(times int) {
		t.Helper()
		for range times {
			heads, err := s.Revisions(t.Context(), []string{"limits"})
			if err != nil {
				t.Fatal(err)
			}
			set := a
			if heads["limits"].Revision%2 == 1 {
				set = b
			}
			mustPut(t, s, set, heads["limits"].Revision)
		}
	}
	change(10)
	small := size()
	change(300)
	t.Logf("after 310 changes: %s", size())
	if size() != small {
		t.Errorf("after 10 changes %s, after 310 %s", small, size())
	}
	consistent(t, srv, s)

	// With a shorter history the next changes delete the rest.
	s = newSource(t, client, Config{Prefix: s.config.Prefix, History: 200})
	change(200)
	s = newSource(t, client, Config{Prefix: s.config.Prefix, History: 5})
	change(2)
	consistent(t, srv, s)
	history, err := s.History(t.Context(), "limits", 0, 0)
	if err != nil || len(history) != 5 || history[4].Revision != 508 {
		t.Errorf("the history is %v (%v)", history, err)
	}
}

// No command scans all keys.
func TestKeys_NoScan(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	if err := everything(t.Context(), t, s); err != nil {
		t.Fatal(err)
	}
	stats, err := srv.Info(t.Context(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for name := range stats {
		command, _ := strings.CutPrefix(name, "cmdstat_")
		for _, never := range []string{"keys", "scan", "flush", "hgetall", "hkeys", "hvals", "del", "expire"} {
			if strings.Contains(command, never) && command != "hdel" {
				t.Errorf("%s was sent", command)
			}
		}
	}
	if _, ok := stats["cmdstat_evalsha"]; !ok {
		t.Error("no script was run, so the test is void")
	}
	for _, key := range do(t, srv, "KEYS", "*").([]any) {
		if !strings.HasPrefix(key.(string), s.config.Prefix+":{rules}:") {
			t.Errorf("a key %q", key)
		}
		if do(t, srv, "PTTL", key) != int64(-1) {
			t.Errorf("the key %q expires", key)
		}
	}
}

// Many changes of a large rule set use no more memory in Redis than the limit of
// the history.
func TestHistory_Memory_NoRace(t *testing.T) {
	testenv.SkipShort(t)
	srv := testenv.StartStandalone(t, testenv.Config{})
	const kept, document = 4 << 20, 1 << 20
	s := newSource(t, dial(t, toServer(t, srv)), Config{HistoryBytes: kept})
	used := func() int {
		t.Helper()
		info, err := srv.Info(t.Context(), "memory")
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := strconv.Atoi(info["used_memory"])
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	before := used()
	for i := range int64(12) {
		large := fluxgate.Must(rules.NewSet("limits", rules.Rule{
			ID: "a", Bands: []rules.Band{rules.PerMinute(i + 1)}, Attributes: map[string]any{"x": strings.Repeat("x", document)},
		}))
		mustPut(t, s, large, i)
	}
	// Redis allocates more for a long value than its length.
	if grown := used() - before; grown > 2*kept {
		t.Errorf("after 12 changes of 1 MiB Redis holds %d KiB more, want at most %d", grown>>10, 2*kept>>10)
	}
}
