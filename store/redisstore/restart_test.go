package redisstore

import (
	"net"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

func TestRestart_CallersRecover(t *testing.T) {
	const timeout = 200 * time.Millisecond
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: timeout}, srv)
	shared := tr.demand(ample)
	crowd := tr.gather(crowdSize, 5*time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	crowd.untilAllServed(time.Now())

	killed := time.Now()
	if err := srv.Kill(); err != nil {
		t.Fatal(err)
	}
	crowd.untilAllFail(killed)
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	recovery := crowd.untilAllServed(back)
	crowd.stop()

	all := crowd.all()
	t.Logf("%d callers: the server was away for %v, all were served again %v after; %d of %d calls failed, the longest after %v with a timeout of %v",
		crowdSize, back.Sub(killed).Round(time.Millisecond), recovery.Round(time.Millisecond), all.failed, all.asked, all.longestFailure.Round(time.Millisecond), timeout)
	t.Logf("errors: %q", all.kinds())
	all.onlyUnavailable(t)
	if all.longest > timeout+slack {
		t.Errorf("a call took %v", all.longest)
	}
	if tr.Scripts() < 2 {
		t.Error("the new server was not brought the script")
	}
	// The fleet state is restored, or the next gateway would write a new salt.
	until(t, "the fleet state is restored", func() bool {
		salt, err := srv.Do(t.Context(), "HGET", tr.names.fleet(), fieldSalt)
		return err == nil && salt == tr.fleet.own[fieldSalt]
	})
}

// Callers of a frozen server return within the timeout.
func TestFrozenServer_Timeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: timeout}, srv)
	shared := tr.demand(ample)
	crowd := tr.gather(crowdSize, 5*time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	crowd.untilAllServed(time.Now())

	if err := srv.Freeze(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		crowd.untilAllFail(time.Now())
	}
	if err := srv.Thaw(); err != nil {
		t.Fatal(err)
	}
	recovery := crowd.untilAllServed(time.Now())
	crowd.stop()

	all, taken := crowd.all(), tr.taken(shared)
	t.Logf("%d callers: %d of %d calls failed, the longest after %v with a timeout of %v; all were served again %v after the thaw",
		crowdSize, all.failed, all.asked, all.longestFailure.Round(time.Millisecond), timeout, recovery.Round(time.Millisecond))
	t.Logf("%d calls were admitted, %d tokens taken", all.admitted, taken)
	all.onlyUnavailable(t)
	if all.longest > timeout+slack {
		t.Errorf("a call took %v", all.longest)
	}
	// After the thaw the server ran each buffered call once.
	if taken < all.admitted || taken > all.admitted+all.failed {
		t.Errorf("%d tokens were taken for %d calls admitted and %d failed", taken, all.admitted, all.failed)
	}
}

// A master that was demoted refuses to write, and has taken nothing. When there is
// a master again, callers are served.
func TestSend_ReadOnlyForAWhile(t *testing.T) {
	srv, other := testenv.StartStandalone(t, testenv.Config{}), testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 5 * time.Second}, srv)
	shared := tr.demand(ample)
	host, port, err := net.SplitHostPort(other.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Do(t.Context(), "REPLICAOF", host, port); err != nil {
		t.Fatal(err)
	}
	crowd := tr.gather(crowdSize, 5*time.Millisecond, func(int) []store.Demand { return []store.Demand{shared} })
	crowd.untilAllFail(crowd.began)
	crowd.untilAllFail(time.Now())
	if _, err := srv.Do(t.Context(), "REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	served := crowd.untilAllServed(time.Now())
	crowd.stop()

	all := crowd.all()
	t.Logf("%d callers: the server refused %d calls, all were served after %v, %d of %d requests failed",
		crowdSize, replies(t, "READONLY", srv), served.Round(time.Millisecond), all.failed, all.asked)
	all.onlyUnavailable(t)
	if served > 2*time.Second {
		t.Errorf("served %v after the server was a master again", served)
	}
	if taken := tr.taken(shared); taken != all.admitted {
		t.Errorf("%d calls were admitted and %d tokens taken", all.admitted, taken)
	}
}

// A receipt of before a loss of state gives nothing back, however often it is
// settled: the bucket was full again after its take.
func TestSettle_AfterLoss(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Refresh: 20 * time.Millisecond})
	d := tr.demand(ample)
	d.Cost = 90
	out, err := tr.take(d)
	must(t, err)
	before := store.NewTakes([]store.Demand{d}, &out)
	since := tr.fleet.since.Load()
	if _, err := srv.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss is known", func() bool { return tr.fleet.since.Load() > since })
	out, err = tr.take(d)
	must(t, err)
	after := store.NewTakes([]store.Demand{d}, &out)
	if settled, err := tr.Settle(t.Context(), before, []int64{0}); err != nil || settled[0].Returned != 0 {
		t.Errorf("of a take that was lost: %+v, %v", settled, err)
	}
	if settled, err := tr.Settle(t.Context(), after, []int64{0}); err != nil || settled[0].Returned < 89 {
		t.Errorf("of a take after the loss: %+v, %v", settled, err)
	}
}
