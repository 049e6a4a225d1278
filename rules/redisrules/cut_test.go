package redisrules

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// trap cuts all connections after a number of bytes was sent, or at the first
// byte received after them.
type trap struct {
	proxy    *testenv.Proxy
	sent     atomic.Int64 // counted always
	left     atomic.Int64 // bytes that may still pass, while it is set
	set      atomic.Bool
	answered bool // cut at the answer
}

func (p *trap) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &trappedConn{Conn: conn, trap: p}, nil
}

type trappedConn struct {
	net.Conn
	trap *trap
}

func (c *trappedConn) Write(b []byte) (int, error) {
	c.trap.sent.Add(int64(len(b)))
	if !c.trap.set.Load() {
		return c.Conn.Write(b)
	}
	pass := min(c.trap.left.Load(), int64(len(b)))
	n, err := c.Conn.Write(b[:pass])
	if left := c.trap.left.Add(-int64(n)); err == nil && left == 0 && !c.trap.answered {
		c.trap.proxy.Cut()
		err = net.ErrClosed
	}
	return n, err
}

func (c *trappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.trap.set.Load() && c.trap.answered {
		c.trap.proxy.Cut()
		return 0, net.ErrClosed
	}
	return n, err
}

// After a cut connection the server has the old rule set or the new one, complete.
// The test cuts after each part of a change, right after its last byte, and at the
// first byte of the answer.
func TestPut_CutConnection(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	cut := &trap{proxy: testenv.StartProxy(t, srv.Addr())}
	client := redis.NewClient(&redis.Options{
		Addr: cut.proxy.Addr(), MaxRetries: -1, Dialer: cut.dial, PoolSize: 1, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	s := newSource(t, client, Config{History: 5})
	near := newSource(t, dial(t, toServer(t, srv)), s.config)

	sets := make([]*rules.Set, 7) // all of one length, with other rules
	for i := range sets {
		var ids []string
		for r := range 50 {
			ids = append(ids, fmt.Sprintf("rule-%d-%02d", i, r+i))
		}
		sets[i] = ruleSet(t, "limits", ids...)
	}
	mustPut(t, s, sets[0], 0) // caches the script
	before := cut.sent.Load()
	base := mustPut(t, s, sets[1], 1)
	whole := cut.sent.Load() - before

	const parts = 20
	committed := map[string]int{}
	for i := range 3 * parts {
		until(t, "a connection is open", func() bool { return client.Ping(t.Context()).Err() == nil })
		moment := "within the change"
		cut.answered = false
		switch {
		case i < parts:
			cut.left.Store(max(1, whole*int64(i)/parts))
		case i < 2*parts:
			moment = "after the change"
			cut.left.Store(whole)
		default:
			moment = "at the answer"
			cut.answered = true
			cut.left.Store(1 << 30)
		}
		set := sets[i%len(sets)]
		cut.set.Store(true)
		_, err := s.Put(t.Context(), set, rules.Change{Base: base, Author: "alice"})
		cut.set.Store(false)
		var conflict *rules.ConflictError
		if err == nil || errors.As(err, &conflict) {
			t.Fatalf("a change whose connection was cut %s: %v", moment, err)
		}
		// The server may not have processed it yet.
		until(t, "the connection has ended", func() bool { return cut.proxy.Connections() == 0 && others(t, srv, near) == 0 })
		v, err := near.Load(t.Context(), "limits")
		switch {
		case err != nil:
			t.Fatal(err)
		case v.Revision == base+1:
			committed[moment]++
			base++
			if document(t, v.RuleSet) != document(t, set) {
				t.Fatalf("revision %d is not what was put", v.Revision)
			}
		case v.Revision != base:
			t.Fatalf("revision %d after revision %d", v.Revision, base)
		}
		consistent(t, srv, near)
	}
	t.Logf("%d bytes; made, of %d changes each: %v", whole, parts, committed)
	if committed["within the change"] != 0 || committed["at the answer"] != parts {
		t.Error("the cuts were at the wrong places, so the test is void")
	}
}

// others returns how many connections the server has besides near's and the one
// that sends this command.
func others(t testing.TB, srv *testenv.Server, near *Source) int64 {
	t.Helper()
	stats, err := srv.Info(t.Context(), "clients")
	if err != nil {
		t.Fatal(err)
	}
	var connected int64
	if _, err := fmt.Sscan(stats["connected_clients"], &connected); err != nil {
		t.Fatal(err)
	}
	return connected - 1 - int64(near.client.PoolStats().TotalConns)
}

// consistent fails if the keys of a source do not agree with each other.
func consistent(t testing.TB, srv *testenv.Server, s *Source) {
	t.Helper()
	all := func(command string, args ...any) map[string]string {
		found := map[string]string{}
		answer := do(t, srv, append([]any{command}, args...)...).([]any)
		for i := 0; i+1 < len(answer); i += 2 {
			found[answer[i].(string)] = answer[i+1].(string)
		}
		return found
	}
	names, exist := all("ZRANGE", s.key("names"), 0, -1, "WITHSCORES"), 0
	bytes := all("HGETALL", s.key("bytes"))
	heads := all("HGETALL", s.key("heads"))
	for id, head := range heads {
		if strings.HasPrefix(id, ":") {
			continue
		}
		h, err := parseHead(head)
		if err != nil {
			t.Fatal(err)
		}
		history := all("HGETALL", s.key("history:"+id))
		if kept := min(h.Revision, int64(s.config.History)); int64(len(history)) != kept {
			t.Fatalf("%s at %s has %d lines of history, want %d", id, head, len(history), kept)
		}
		total := 0
		for _, document := range all("HGETALL", s.key("documents:"+id)) {
			total += len(document)
		}
		if bytes[id] != fmt.Sprint(total) {
			t.Fatalf("%s has documents of %d bytes, and %q is kept as their length", id, total, bytes[id])
		}
		puts := 0
		changes := all("HGETALL", s.key("changes:"+id))
		for revision, text := range history {
			entry, err := parseLine(id, text)
			if err != nil || fmt.Sprint(entry.Revision) != revision || entry.Revision > h.Revision {
				t.Fatalf("%s has a line of history at %s: %q", id, revision, text)
			}
			if commit := heads[":"+id]; entry.Revision == h.Revision && parseCommit(h.Revision, commit) != entry.Commit {
				t.Fatalf("%s has the commit %q, and its newest line is %q", id, commit, text)
			}
			if !entry.Deleted {
				puts++
			}
		}
		if documents := do(t, srv, "HLEN", s.key("documents:"+id)); documents != int64(puts) || len(changes) != len(history) {
			t.Fatalf("%s has %d revisions, %d tokens and %v documents", id, puts, len(changes), documents)
		}
		if _, listed := names[id]; listed == h.Deleted {
			t.Fatalf("%s at %q is listed: %t", id, head, listed)
		}
		if h.Deleted {
			continue
		}
		exist++
		if _, err := s.Load(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if exist != len(names) {
		t.Fatalf("%d of %d names exist", exist, len(names))
	}
}
