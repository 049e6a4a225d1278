package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// Every reply to a take is lost. The server must have run each take once: a
// retry, by us or by the client, would take twice.
func TestSend_LostReply(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(ctx context.Context, addr string, config Config) (*Store, error)
	}{
		{"Open", func(ctx context.Context, addr string, config Config) (*Store, error) {
			return Open(ctx, "redis://"+addr, config)
		}},
		{"New with a client that retries", func(ctx context.Context, addr string, config Config) (*Store, error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = client.Close() })
			if client.Options().MaxRetries < 1 {
				t.Fatal("the client does not retry: the test tests nothing")
			}
			return New(ctx, client, config)
		}},
		{"New with a client that is impatient and retries at once", func(ctx context.Context, addr string, config Config) (*Store, error) {
			client := redis.NewClient(&redis.Options{
				Addr: addr, MaxRetries: 10, MinRetryBackoff: -1, MaxRetryBackoff: -1,
				ReadTimeout: time.Second, WriteTimeout: time.Second,
			})
			t.Cleanup(func() { _ = client.Close() })
			return New(ctx, client, config)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each has a server of its own, and mostly waits
			srv := testenv.StartStandalone(t, testenv.Config{})
			proxy := testenv.StartProxy(t, srv.Addr())
			s, err := c.open(t.Context(), proxy.Addr(), Config{Timeout: 2 * time.Second, Refresh: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			loseReplies(trialOf(t, s), srv, proxy)
			onlyOwnKeys(t, []*testenv.Server{srv})
		})
	}
}

// untilPeeked waits until the store answers: its breaker may be open.
func (tr trial) untilPeeked(d store.Demand) {
	tr.Helper()
	until(tr, "the store answers", func() bool {
		return tr.Peek(tr.Context(), []store.Demand{d}, new(store.Outcome)) == nil
	})
}

func loseReplies(tr trial, srv *testenv.Server, proxy *testenv.Proxy) {
	const rounds = 20
	d := tr.demand(ample)
	tr.taken(d) // the script is loaded
	var sent, run int64
	for run < rounds {
		tr.untilPeeked(d) // a connection is open, or the take would wait for one
		// The server runs the take, and the connection breaks before the reply
		// arrives. A new one works, so that a retry would succeed.
		proxy.SwallowReplies(true)
		before := tr.stored(srv, d)
		take := tr.takeAndLeave(d)
		until(tr, "the server has run the take, or the take has failed", func() bool { return tr.stored(srv, d) != before || len(take.done) > 0 })
		proxy.Cut()
		switch err := <-take.done; {
		case errors.Is(err, store.ErrNotSent): // a call for the fleet state was lost before
		case errors.Is(err, ErrUnavailable):
			sent++
			if tr.stored(srv, d) != before {
				run++
			} // else a busy machine did not deliver it in time
		default:
			tr.Fatalf("a take whose reply is lost: %v, want ErrUnavailable", err)
		}
		take.leave()
	}
	// Each run of a take takes a token. Calls are not counted: the store also
	// refreshes the fleet state.
	tr.untilPeeked(d)
	if taken := tr.taken(d); taken < run || taken > sent {
		tr.Errorf("%d takes were sent once each and %d were seen to run; the server took %d tokens", sent, run, taken)
	}

	// The same for a crowd, whose calls are shared.
	shared := tr.demand(ample)
	crowd := tr.gather(crowdSize, time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	for range rounds {
		crowd.untilAllServed(time.Now())
		proxy.SwallowReplies(true)
		asked := int64(-1)
		until(tr, "everybody waits for a reply", func() bool {
			before := asked
			asked = crowd.all().asked
			return asked == before
		})
		proxy.Cut()
	}
	crowd.untilAllServed(time.Now())
	crowd.stop()
	tr.untilPeeked(shared)
	all := crowd.all()
	lost := tr.taken(shared) - all.admitted
	tr.Logf("%d callers: %d calls were admitted, %d failed, of which the server has run %d", crowdSize, all.admitted, all.failed, lost)
	all.onlyUnavailable(tr)
	if lost < 1 || lost > all.failed {
		tr.Errorf("%d calls failed and the server has run %d of them", all.failed, lost)
	}
}

// A call that reached no server has taken nothing. Callers are answered at once
// when it is known that there is none, and served when there is one.
func TestSend_UnreachableForAWhile(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	tr := newTrial(t, "redis://"+proxy.Addr(), Config{Timeout: 5 * time.Second, Refresh: time.Hour}, srv)
	shared := tr.demand(ample)
	tr.mustTake(shared)
	proxy.Refuse()
	proxy.Cut()
	until(t, "no connection is left", func() bool { return proxy.Connections() == 0 })

	crowd := tr.gather(crowdSize, time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	crowd.untilAllFail(crowd.began)
	crowd.untilAllFail(time.Now())
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	recovery := crowd.untilAllServed(time.Now())
	crowd.stop()
	all := crowd.all()
	t.Logf("%d callers were served %v after the server was back; the longest call took %v", crowdSize, recovery.Round(time.Millisecond), all.longest.Round(time.Millisecond))
	all.onlyUnavailable(t)
	if recovery > 2*time.Second || all.longest > slack {
		t.Errorf("recovered after %v, and a call took %v", recovery, all.longest)
	}
	if taken := tr.taken(shared); taken != all.admitted+1 {
		t.Errorf("%d calls were admitted and %d tokens taken", all.admitted+1, taken)
	}
}
