package upgrade_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// kind is a rule of the file, and how its callers use it.
type kind struct {
	name string
	// capacity and rate are those of a token bucket, and lease what leases add to its bound.
	capacity, rate, lease float64
	// conserved is the capacity of a limit that is never used up: all that is settled is used.
	conserved int64
	slots     int64
	priced    bool
}

var kinds = []kind{
	{name: "strict", capacity: 50, rate: 50},
	{name: "leased", capacity: 200, rate: 200, lease: 200.0 / 4},
	{name: "quota", conserved: 100_000_000},
	{name: "window", conserved: 100_000_000},
	{name: "slots", slots: 4},
	{name: "budget", conserved: 100_000_000, priced: true},
}

const callersPerKind = 6

// load is callers that use a fleet.
type load struct {
	t      *testing.T
	fleet  *fleet
	began  time.Time
	lasted time.Duration
	cancel context.CancelFunc
	done   sync.WaitGroup

	requests, crossed atomic.Int64
	books             map[string]*book
}

// book is what callers of a kind have seen.
type book struct {
	asked, admitted, used, atOnce, most atomic.Int64
}

func startLoad(t *testing.T, f *fleet) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, fleet: f, began: time.Now(), cancel: cancel, books: map[string]*book{}}
	for _, k := range kinds {
		l.books[k.name] = new(book)
	}
	for _, k := range kinds {
		for range callersPerKind {
			l.done.Go(func() {
				for ctx.Err() == nil {
					l.request(k)
				}
			})
		}
	}
	return l
}

func (l *load) of(k kind) *book { return l.books[k.name] }

// stop ends the load when all requests have an answer.
func (l *load) stop() {
	l.cancel()
	l.done.Wait()
	l.lasted = time.Since(l.began)
}

type answer struct {
	Allowed, Degraded bool
	Reason, Receipt   string
	Remaining         int64
	Bands             []struct{ Remaining int64 }
}

// request sends a request to one server, and settles it at the other.
func (l *load) request(k kind) {
	l.requests.Add(1)
	at := l.fleet.servers()
	i := rand.IntN(len(at))
	cost := 1 + rand.Int64N(9)
	body := map[string]any{"userId": "ada", "method": "GET", "path": "/" + k.name}
	switch {
	case k.priced:
		body["estimate"] = map[string]any{"model": "any", "inputTokens": 10, "maxOutputTokens": 5}
	case k.conserved > 0:
		body["cost"] = cost
	}
	var a answer
	if err := l.fleet.post(l.t.Context(), at[i], "/v1/check", body, &a); err != nil || a.Degraded {
		l.t.Errorf("%s: %v %+v", k.name, err, a)
		return
	}
	b := l.of(k)
	b.asked.Add(1)
	if !a.Allowed {
		if k.conserved > 0 || a.Reason != "limited" {
			l.t.Errorf("%s: refused: %+v", k.name, a)
		}
		time.Sleep(time.Millisecond)
		return
	}
	b.admitted.Add(1)
	if k.rate > 0 {
		return
	}
	n := b.atOnce.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	l.settle(k, at[i], a.Receipt, cost)
}

// settle settles a request that was decided by one server at another.
func (l *load) settle(k kind, decided *server, receipt string, cost int64) {
	b := l.of(k)
	b.atOnce.Add(-1)
	at := l.fleet.servers()
	other := at[rand.IntN(len(at))]
	if other.version != decided.version {
		l.crossed.Add(1)
	}
	body := map[string]any{"receipt": receipt}
	var used int64
	if k.priced {
		input, output := rand.Int64N(20), rand.Int64N(20)
		used = input + 2*output
		body["usage"] = map[string]any{"inputTokens": input, "outputTokens": output}
	} else {
		used = max(1, cost+rand.Int64N(7)-3)
		body["actual"] = used
	}
	if err := l.fleet.post(l.t.Context(), other, "/v1/settle", body, &struct{}{}); err != nil {
		l.t.Errorf("%s: settling a receipt of the %s version: %v", k.name, decided.version, err)
		return
	}
	b.used.Add(used)
}

// verify compares what callers got with the limits, and what each version shows with what was used.
func (l *load) verify() {
	for _, k := range kinds {
		b, seconds := l.of(k), l.lasted.Seconds()
		if most := k.capacity + k.lease + k.rate*seconds; k.rate > 0 {
			admitted := float64(b.admitted.Load())
			if admitted > most {
				l.t.Errorf("%s: %.0f admitted in %.2f s, at most %.1f", k.name, admitted, seconds, most)
			}
			// On a slow machine callers ask for less than is refilled.
			asked := float64(b.asked.Load())
			if least := 0.7 * min(k.rate*seconds, asked); admitted < least {
				l.t.Errorf("%s: %.0f of %.0f admitted in %.2f s, at least %.0f", k.name, admitted, asked, seconds, least)
			}
			continue
		}
		if most := b.most.Load(); k.slots > 0 && most > k.slots {
			l.t.Errorf("%s: %d requests at once, at most %d", k.name, most, k.slots)
		}
		for _, s := range l.fleet.servers() {
			var a answer
			err := l.fleet.post(l.t.Context(), s, "/v1/check", map[string]any{"userId": "ada", "path": "/" + k.name, "peek": true}, &a)
			if err != nil || len(a.Bands) != 1 {
				l.t.Fatalf("%s: %v %+v", k.name, err, a)
			}
			want := k.slots // all are free again
			if k.slots == 0 {
				want = k.conserved - b.used.Load()
			}
			if left := a.Bands[0].Remaining; left != want {
				l.t.Errorf("%s: the %s version shows %d left, want %d", k.name, s.version, left, want)
			}
		}
	}
}
