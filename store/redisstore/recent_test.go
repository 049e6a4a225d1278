package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

const lineFailing = "Redis fails decisions"

// Errors that do not open the breaker: health says why and since when, however
// long they last, and the log has one line a minute.
func TestRecent_OutOfMemory(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Logger: log.Logger()}, srv)
	d := tr.demand(ample)
	tr.mustTake(d)
	set := func(maxmemory string) {
		_, err := srv.Do(t.Context(), "CONFIG", "SET", "maxmemory", maxmemory)
		must(t, err)
	}
	began := time.Now()
	set("1")
	until(t, "the first failures are older than the window", func() bool {
		_, err := tr.take(d)
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("the error is %v", err)
		}
		return time.Since(began) > 2*recentWindow
	})
	n := tr.Health(t.Context()).Nodes[0]
	if n.Err == nil || !strings.Contains(n.Err.Error(), "OOM command not allowed") || !errors.Is(n.Err, ErrUnavailable) || n.Open {
		t.Errorf("%+v", n)
	}
	if n.Since.Before(began) || n.Since.Sub(began) > recentWindow {
		t.Errorf("since %v after it began", n.Since.Sub(began))
	}
	if lines := log.Lines(lineFailing); len(lines) != 1 || !strings.Contains(lines[0], "OOM") || !strings.Contains(lines[0], "node="+srv.Addr()) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	set("0")
	until(t, "health says that it is over", func() bool {
		tr.mustTake(d)
		h := tr.Health(t.Context())
		return h.Healthy()
	})
}

// An outage has the log lines of its breaker and no others, if it opens within a second.
func TestRecent_BreakerOpens(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Timeout: 100 * time.Millisecond, Logger: log.Logger()}, srv)
	d := tr.demand(ample)
	tr.takeEventually(d)
	q := tr.nodes.queue(0)
	earlier := len(log.String())
	outages := map[time.Time]bool{} // on a busy machine there may be another one
	take := func() error {
		_, err := tr.take(d)
		if o := q.outage(); o != nil {
			outages[o.since] = true
		}
		return err
	}
	must(t, srv.Freeze())
	frozen := time.Now()
	until(t, "the breaker opens", func() bool { _ = take(); return q.outage() != nil })
	opened := time.Now()
	until(t, "it is open for a while", func() bool { _ = take(); return time.Since(frozen) > 2*soon })
	must(t, srv.Thaw())
	until(t, "Redis decides", func() bool { return take() == nil })
	lines := log.String()[earlier:]
	if n := strings.Count(lines, lineOpened); n != len(outages) {
		t.Errorf("%d lines for %d outages: %s", n, len(outages), lines)
	}
	if opened.Sub(frozen) > soon || len(outages) > 1 {
		t.Logf("the machine is busy: the breaker opened after %v, and %d times", opened.Sub(frozen), len(outages))
		return
	}
	for _, line := range []string{lineFailing, "cannot write the heartbeat"} {
		if strings.Contains(lines, line) {
			t.Error(lines)
		}
	}
}

// One error that cannot open the breaker is logged; one that can is not, unless
// too many decisions fail for a second.
func TestRecent_Logged(t *testing.T) {
	reply := fmt.Errorf("%w: %w", ErrUnavailable, replyError("OOM command not allowed"))
	notSent := fmt.Errorf("%w: %w: away", ErrUnavailable, store.ErrNotSent)
	for name, c := range map[string]struct {
		err     error
		isReply bool
		first   int // of these failures, 100 ms apart
	}{
		"reply":    {reply, true, 0},
		"timeout":  {errLate, false, 11},
		"not sent": {notSent, false, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var r recentDecisions
			start := time.Now()
			for i := range 200 {
				now := start.Add(time.Duration(i) * 100 * time.Millisecond)
				if failed := r.add(now, now, c.err, c.isReply); (failed != nil) != (i >= c.first) {
					t.Fatalf("failure %d: %v is to be logged", i, failed)
				}
			}
			all := r.sum(start.Add(20 * time.Second))
			if err := all.err(); !errors.Is(err, c.err) || !all.since.Equal(start) {
				t.Errorf("%v since %v", err, all.since.Sub(start))
			}
		})
	}
	t.Run("single timeout", func(t *testing.T) {
		var r recentDecisions
		now := time.Now()
		failed := []error{r.add(now, now, errLate, false), r.add(now, now, nil, false), r.add(now, now, nil, false)}
		if failed[0] != nil || !errors.Is(failed[1], errLate) || failed[2] != nil {
			t.Errorf("%v, want it with the next success", failed)
		}
	})
}

// A decision that took longer than the window of health counts when it ends, and
// newer ones are not forgotten.
func TestRecent_LongDecision(t *testing.T) {
	var r recentDecisions
	now := time.Now()
	r.add(now, now, nil, false)
	r.add(now.Add(-time.Minute), now, errLate, false)
	r.add(now.Add(-recentWindow), now, errLate, false)
	if all := r.sum(now); all.served != 1 || all.failed != 2 {
		t.Errorf("%+v", all)
	}
}

// A bucket that cannot be read is logged, although its server answers.
func TestRecent_UnreadableBucket(t *testing.T) {
	log := new(testenv.LogBuffer)
	srv := testenv.StartStandalone(t, testenv.Config{})
	tr := newTrial(t, srv.URI(), Config{Logger: log.Logger()}, srv)
	d := tr.demand(ample)
	_, err := srv.Do(t.Context(), "SET", tr.names.key(&d.Key, tr.fleet.generations()), "\x09"+strings.Repeat("x", 24))
	must(t, err)
	for range 3 {
		if _, err := tr.take(d); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("the error is %v", err)
		}
	}
	if lines := log.Lines(lineFailing); len(lines) != 1 || !strings.Contains(lines[0], "version 9") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
