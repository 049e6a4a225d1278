package redisrules

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/redis/go-redis/v9"
)

// impatient returns a client with a short timeout that retries on another
// connection.
func impatient(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	return dial(t, &redis.UniversalOptions{
		Addrs: []string{addr}, MaxRetries: 10, MinRetryBackoff: -1, MaxRetryBackoff: time.Millisecond, ReadTimeout: 2 * time.Second,
	})
}

// A change whose answer is lost is made once: the connection breaks after the
// server made the change, and the client sends it again.
func TestPut_LostAnswer(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	s := newSource(t, impatient(t, proxy.Addr()), Config{})
	near := newSource(t, dial(t, toServer(t, srv)), s.config)
	ctx := t.Context()
	mustPut(t, s, ruleSet(t, "limits", "first"), 0)

	// lose makes a change, loses its answer, and calls meanwhile before the
	// retry.
	lose := func(change func() (int64, error), meanwhile func()) (int64, error) {
		if _, err := s.Load(ctx, "limits"); err != nil && !errors.Is(err, rules.ErrNotFound) {
			t.Fatal(err) // open a connection first
		}
		before, _ := calls(t, srv, "hset")
		proxy.SwallowReplies(true)
		type outcome struct {
			revision int64
			err      error
		}
		done := make(chan outcome, 1)
		go func() {
			revision, err := change()
			done <- outcome{revision, err}
		}()
		until(t, "the server has made the change", func() bool { now, _ := calls(t, srv, "hset"); return now > before })
		meanwhile()
		proxy.Cut()
		o := <-done
		return o.revision, o.err
	}
	put := func(base int64, rule string) func() (int64, error) {
		set := ruleSet(t, "limits", rule)
		return func() (int64, error) { return s.Put(ctx, set, by(base, rule)) }
	}
	remove := func(base int64) func() (int64, error) {
		return func() (int64, error) { return s.Delete(ctx, "limits", by(base, "")) }
	}
	nothing := func() {}
	again := func(base int64) func() {
		return func() { mustPut(t, near, ruleSet(t, "limits", "others"), base) }
	}
	gone := func(base int64) func() {
		return func() {
			if _, err := near.Delete(ctx, "limits", by(base, "")); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := scripts(t, srv)
	for i, c := range []struct {
		name      string
		change    func() (int64, error)
		meanwhile func()
		want      int64 // the revision that the change must have got
		head      rules.Head
	}{
		{"a change", put(1, "second"), nothing, 2, rules.Head{Revision: 2}},
		{"a change, and another's after it", put(2, "third"), again(3), 3, rules.Head{Revision: 4}},
		{"a change, and a deletion after it", put(4, "fifth"), gone(5), 5, rules.Head{Revision: 6, Deleted: true}},
		{"a new rule set", put(0, "seventh"), nothing, 7, rules.Head{Revision: 7}},
		{"a deletion", remove(7), nothing, 8, rules.Head{Revision: 8, Deleted: true}},
		// Its base is valid again when it is retried: only its token identifies it.
		{"a new rule set that is deleted again", put(0, "ninth"), gone(9), 9, rules.Head{Revision: 10, Deleted: true}},
		{"a new rule set, deleted and created again", put(0, "eleventh"), func() { gone(11)(); again(0)() }, 11, rules.Head{Revision: 13}},
	} {
		revision, err := lose(c.change, c.meanwhile)
		if err != nil || revision != c.want {
			t.Errorf("%s whose answer was lost: revision %d, error %v; want revision %d", c.name, revision, err, c.want)
		}
		heads, err := near.Revisions(ctx, []string{"limits"})
		head := heads["limits"]
		if head.Commit = ""; err != nil || head != c.head {
			t.Fatalf("after change %d (%s) the head is %+v (%v), want %+v", i, c.name, heads["limits"], err, c.head)
		}
	}
	if sent := scripts(t, srv) - before; sent < 13+7 {
		t.Errorf("the server ran %d scripts: no change was sent twice, so the test is void", sent)
	}
	history, err := near.History(ctx, "limits", 0, 0)
	if err != nil || len(history) != 13 {
		t.Errorf("13 changes were made and the history has %d (%v)", len(history), err)
	}
}

// Without retries a lost answer is an error, but not a conflict.
func TestPut_LostAnswerIsNoConflict(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	s := newSource(t, dial(t, &redis.UniversalOptions{Addrs: []string{proxy.Addr()}, MaxRetries: -1}), Config{Timeout: 2 * time.Second})
	near := newSource(t, dial(t, toServer(t, srv)), Config{Prefix: s.config.Prefix})
	mustPut(t, near, ruleSet(t, "limits", "first"), 0)
	until(t, "a connection is open", func() bool { _, err := s.Load(t.Context(), "limits"); return err == nil })
	proxy.SwallowReplies(true)
	_, err := s.Put(t.Context(), ruleSet(t, "limits", "second"), by(1, ""))
	var conflict *rules.ConflictError
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &conflict) {
		t.Errorf("a change whose answer was lost: %v", err)
	}
	until(t, "the change is there", func() bool {
		v, err := near.Load(t.Context(), "limits")
		return err == nil && v.Revision == 2
	})
	proxy.Cut()
}

// SCRIPT FLUSH between changes has no effect.
func TestScripts_Flush(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	for range 20 {
		do(t, srv, "SCRIPT", "FLUSH")
		if err := everything(t.Context(), t, s); err != nil {
			t.Fatal(err)
		}
	}
	if whole, _ := calls(t, srv, "eval"); whole < 20 {
		t.Errorf("the script was sent %d times for 20 flushes", whole)
	}
}
