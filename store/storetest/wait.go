package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

var waitChecks = []Check{
	{"wait books tokens ahead, first come first served", waitBooksAhead},
	{"wait longer than asked for is refused at once and books nothing", waitTooLong},
	{"wait of every rule must be accepted by that rule", waitOfEveryRule},
	{"wait ends where an ideal bucket would have the tokens", waitIsExact},
}

func waitBooksAhead(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 2, 1, 100*time.Millisecond))
	d.MaxWait = time.Second
	for i := range 12 {
		want := max(0, time.Duration(i-1)*100*time.Millisecond)
		if got := f.mustTake(d).Results[0].Wait; got != want {
			t.Fatalf("request %d waits %v, want %v", i, got, want)
		}
	}
	f.mustReject(d)
	// A request that does not wait is not served before those that wait.
	impatient := d
	impatient.MaxWait = 0
	f.Advance(time.Second)
	out := f.mustReject(impatient)
	if got := out.Results[0].Wait; got != 100*time.Millisecond {
		t.Errorf("behind a queue of a second, after a second, the next token is there in %v, want 100ms", got)
	}
	f.Advance(100 * time.Millisecond)
	f.mustTake(impatient)
}

func waitTooLong(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 1, 1, time.Second))
	f.mustTake(d)
	d.MaxWait = time.Second - time.Microsecond
	for range 5 {
		if got := f.mustReject(d).Results[0].Wait; got != time.Second {
			t.Errorf("rejected with a wait of %v, want 1s", got)
		}
	}
	d.MaxWait = time.Second
	if got := f.mustTake(d).Results[0].Wait; got != time.Second {
		t.Errorf("waits %v, want 1s", got)
	}
}

func waitOfEveryRule(t testing.TB, b Backend) {
	f := newFixture(t, b)
	patient := f.demand(1, band("", 1, 1, time.Second))
	patient.MaxWait = time.Minute
	strict := f.demand(1, band("", 2, 1, time.Hour))
	f.mustTake(patient, strict)
	if got := f.mustTake(patient, strict).Results[0].Wait; got != time.Second {
		t.Errorf("waits %v for the patient rule, want 1s", got)
	}
	// The rule that rejects is empty: the one that waits must not book.
	f.mustReject(patient, strict)
	if got := f.peek(patient).Results[0].Wait; got != 2*time.Second {
		t.Errorf("the patient rule has a queue of %v, want 2s: a rejected request booked", got)
	}
}

func waitIsExact(t testing.TB, b Backend) {
	f := newFixture(t, b)
	// 3 tokens every 7 ms: a token every 2,333⅓ µs, due at whole ones.
	d := f.demand(1, band("", 1, 3, 7*time.Millisecond))
	d.MaxWait = time.Minute
	used := f.mustTake(d)
	start := used.Results[0].Now
	// An ideal bucket of capacity 1 loses what overflows between two due
	// ticks: every wait is rounded up on its own.
	due := start
	for range 9 {
		due += 2334
		result := f.mustTake(d).Results[0]
		if got := result.Now + result.Wait.Microseconds(); got != due {
			t.Fatalf("due at %d, want %d", got-start, due-start)
		}
	}
	var out store.Outcome
	d.Cost = 0
	if err := f.Store.Peek(f.Context(), []store.Demand{d}, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.Results[0].Bands[0].Remaining; got != 0 {
		t.Errorf("%d left in a bucket that is in debt", got)
	}
}
