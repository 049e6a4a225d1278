package redisstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// populate writes n buckets of a rule, all used up, the way redis-cli --pipe
// does: the commands at once and then the replies. It returns one of them.
func populate(t testing.TB, s *Store, server *testenv.Server, n int, d store.Demand) store.Demand {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := bucket.State{At: time.Now().UnixMicro()}
	for _, b := range d.Bands {
		state.Slots = append(state.Slots, bucket.Slot{ID: b.ID, Used: b.Limit, Limit: b.Limit, Rate: b.Rate, Tick: b.TickPower()})
	}
	value, lifetime := encodeValue(&state), fmt.Sprint(state.FullAfter()/1_000)
	replies := make(chan error, 1)
	go func() {
		r := bufio.NewReaderSize(conn, 1<<20)
		for range n {
			if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
				replies <- fmt.Errorf("%q: %w", line, err)
				return
			}
		}
		replies <- nil
	}()
	w := bufio.NewWriterSize(conn, 1<<20)
	g := s.fleet.generations()
	var command []byte
	for i := range n {
		binary.BigEndian.PutUint64(d.Key.ID[8:], uint64(i))
		binary.LittleEndian.PutUint64(d.Key.ID[:8], uint64(i)*0x9e3779b97f4a7c15)
		command = append(command[:0], "*4\r\n$6\r\nPSETEX\r\n"...)
		command = appendBulk(command, s.names.key(&d.Key, g))
		command = appendBulk(command, lifetime)
		command = appendBulk(command, string(value))
		if _, err := w.Write(command); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := <-replies; err != nil {
		t.Fatal(err)
	}
	return d
}

func appendBulk(b []byte, s string) []byte {
	b = fmt.Appendf(b, "$%d\r\n", len(s))
	return append(append(b, s...), '\r', '\n')
}

// A reset costs the same, however many buckets there are.
func TestReset_ConstantCost_NoRace(t *testing.T) {
	const buckets = 1_000_000
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	start := time.Now()
	one := populate(t, p.Store, server, buckets, p.demand("rule", 1, year))
	other := p.demand("other", 2, year)
	p.take(other)
	size, err := server.Do(t.Context(), "DBSIZE")
	if err != nil || size.(int64) < buckets {
		t.Fatalf("%v keys: %v", size, err)
	}
	t.Logf("%v keys written in %v", size, time.Since(start).Round(time.Millisecond))
	if left := p.left(one); left != 0 {
		t.Fatalf("%d tokens are left in a used up bucket", left)
	}

	var took []time.Duration
	for range 11 {
		start = time.Now()
		if _, err := p.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: p.ruleSet, Rule: "rule"}}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("a reset of a rule with %d live buckets: %v in the middle, %v at most", buckets, took[len(took)/2], took[len(took)-1])
	if middle := took[len(took)/2]; middle > 5*time.Millisecond {
		t.Errorf("a reset took %v", middle)
	}
	if left := p.left(one); left != 3 {
		t.Errorf("%d of 3 tokens after the reset", left)
	}
	if left := p.left(other); left != 1 {
		t.Errorf("the other rule has %d tokens left, not 1", left)
	}
	if after, err := server.Do(t.Context(), "DBSIZE"); err != nil || after.(int64) < buckets {
		t.Errorf("%v keys after the reset: somebody deleted them one by one (%v)", after, err)
	}
}

func TestReset_OtherGateways(t *testing.T) {
	for name, uri := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testenv.SharedStandalone(t).URI() },
		"sentinel":   func(t testing.TB) string { return testenv.SharedSentinel(t).URI() },
		"cluster":    func(t testing.TB) string { return testenv.SharedCluster(t).URI() },
	} {
		t.Run(name, func(t *testing.T) {
			const refresh = 50 * time.Millisecond
			here := newProbe(t, openStore(t, uri(t), Config{Refresh: refresh}))
			there := newProbe(t, openStore(t, uri(t), Config{Refresh: refresh}))
			a, b := here.demand("a", 3, year), here.demand("b", 3, year)
			second := here.demand("a", 3, year)
			for _, d := range []store.Demand{a, b, second} {
				here.take(d)
			}
			reset := func(what store.Key, full, empty []store.Demand) {
				t.Helper()
				if _, err := here.Reset(t.Context(), store.Reset{Key: what}); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				for _, d := range full {
					if left := here.left(d); left != 3 {
						t.Errorf("%d of 3 tokens are left at the gateway that has reset %v", left, what)
					}
					until(t, "the other gateway sees the reset", func() bool { return there.left(d) == 3 })
				}
				seen := time.Since(start)
				t.Logf("a reset of %q %q was seen by the other gateway after %v; it looks every %v", what.Rule, what.ID, seen, refresh)
				if seen > refresh+slack {
					t.Errorf("it took %v", seen)
				}
				for _, d := range empty {
					if here.left(d) != 0 || there.left(d) != 0 {
						t.Errorf("rule %s was not reset and has %d and %d tokens", d.Key.Rule, here.left(d), there.left(d))
					}
				}
			}
			reset(second.Key, []store.Demand{second}, []store.Demand{a, b})
			here.take(second)
			reset(store.Key{RuleSet: here.ruleSet, Rule: "a"}, []store.Demand{a, second}, []store.Demand{b})
			here.take(a)
			reset(store.Key{RuleSet: here.ruleSet}, []store.Demand{a, b, second}, nil)
		})
	}
}

func TestReset_Flush(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	here := newProbe(t, openStore(t, server.URI(), Config{Refresh: 20 * time.Millisecond}))
	rule := store.Key{RuleSet: here.ruleSet, Rule: "rule"}
	for range 3 {
		if _, err := here.Reset(t.Context(), store.Reset{Key: rule}); err != nil {
			t.Fatal(err)
		}
	}
	field := resetField(rule.RuleSet, rule.Rule)
	want := here.fleet.generations()[field]
	if _, err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	until(t, "the generation is back in the fleet state", func() bool {
		reply, err := server.Do(t.Context(), "HGET", here.names.fleet(), field)
		return err == nil && reply == fmt.Sprint(want)
	})
	there := openStore(t, server.URI(), Config{})
	if g := there.fleet.generations()[field]; g != want || want == 0 {
		t.Errorf("a newcomer takes over generation %d, not %d", g, want)
	}
}

// A reset works before the fleet state is restored.
func TestReset_BeforeRestore(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{Refresh: time.Hour}))
	rule := store.Key{RuleSet: p.ruleSet, Rule: "rule"}
	for range 5 {
		if _, err := p.Reset(t.Context(), store.Reset{Key: rule}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	d := p.demand("rule", 3, year)
	p.take(d)
	if _, err := p.Reset(t.Context(), store.Reset{Key: rule}); err != nil {
		t.Fatal(err)
	}
	if left := p.left(d); left != 3 {
		t.Errorf("%d of 3 tokens after a reset", left)
	}
}

func TestReset_Bound(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{Refresh: 20 * time.Millisecond}))
	args := []any{"HSET", p.names.fleet()}
	for i := range maxResets {
		args = append(args, resetField(fmt.Sprint(p.ruleSet, i%100), fmt.Sprint("rule-", i)), 1)
	}
	if _, err := server.Do(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	until(t, "all resets are seen", func() bool { return len(p.fleet.generations()) == maxResets })
	_, err := p.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: p.ruleSet, Rule: "one-more"}})
	if !errors.Is(err, store.ErrTooManyResets) || !strings.Contains(err.Error(), "50000 rules of all rule sets") {
		t.Errorf("one more: %v", err)
	}
	if _, err := p.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: p.ruleSet + "7", Rule: "rule-7"}}); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	d := p.demand("rule-8", 1, year)
	start := time.Now()
	for range 100 {
		p.take(d)
	}
	t.Logf("with %d resets a decision takes %v", maxResets, time.Since(start)/100)
}

func TestReset_RequiresRuleSet(t *testing.T) {
	p := newProbe(t, openStore(t, testenv.SharedStandalone(t).URI(), Config{}))
	if _, err := p.Reset(t.Context(), store.Reset{Key: store.Key{Rule: "rule"}}); err == nil {
		t.Error("a reset of no rule set did something")
	}
}

// Open fails after a while if no server answers, also without a deadline.
func TestOpen_NoDeadline(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	start := time.Now()
	_, err = Open(context.Background(), "redis://"+addr, Config{Mode: ModeStandalone, Prefix: rand.Text()})
	if took := time.Since(start); err == nil || took > unboundedWait+slack {
		t.Errorf("%v after %v", err, took)
	}
}
