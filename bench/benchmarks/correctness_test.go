package benchmarks

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/ideal"
	"github.com/fluxgate/fluxgate/rules"
)

var tenPerSecond = limit{10, time.Second}

// history is the answers of a limiter that decides at some moment of each request.
func history(random *rand.Rand, requests int, decide func(at time.Duration) bool) (answers []answer) {
	now := time.Duration(0)
	for range requests {
		a := answer{sent: now}
		at := now + time.Duration(random.Int64N(int64(5*time.Millisecond)))
		a.answered = at + time.Duration(random.Int64N(int64(5*time.Millisecond)))
		a.admitted = decide(at)
		answers = append(answers, a)
		now = a.answered
		if !a.admitted {
			now += time.Duration(random.Int64N(int64(20 * time.Millisecond)))
		}
		if random.IntN(50) == 0 {
			now += time.Duration(random.Int64N(int64(2 * time.Second))) // the machine is busy
		}
	}
	return answers
}

// An ideal bucket makes no mistake, wherever in the time of a request it decides.
func TestMistakes_IdealBucket(t *testing.T) {
	band := fluxgate.Must(rules.Band{Capacity: tenPerSecond.tokens, Refill: tenPerSecond.period}.Exact(0))
	for seed := range uint64(200) {
		bucket := ideal.New(band, 0)
		answers := history(rand.New(rand.NewPCG(seed, 1)), 300, func(at time.Duration) bool {
			bucket.Advance(at.Microseconds())
			if bucket.Wait(1) > 0 {
				return false
			}
			bucket.Take(1)
			return true
		})
		if over, due := overAdmitted(tenPerSecond, answers), dueRefused(tenPerSecond, answers); over != 0 || due != 0 {
			t.Fatalf("seed %d: %d tokens over-admitted and %d refused though due, want 0", seed, over, due)
		}
	}
}

// every10ms returns requests that are answered at once.
func every10ms(length time.Duration, admitted func(at time.Duration) bool) (answers []answer) {
	for at := time.Duration(0); at < length; at += 10 * time.Millisecond {
		answers = append(answers, answer{at, at, admitted(at)})
	}
	return answers
}

func TestOverAdmitted(t *testing.T) {
	for _, c := range []struct {
		name     string
		admitted func(at time.Duration) bool
		want     int64
	}{
		{"none", func(time.Duration) bool { return false }, 0},
		{"all of a second: 100, 10 and 9.9 are allowed", func(time.Duration) bool { return true }, 81},
		// 10 at the end of a window and 10 at the start of the next: 190 ms, 11.9 tokens.
		{"a fixed window", func(at time.Duration) bool { return at >= 400*time.Millisecond && at < 600*time.Millisecond }, 9},
		{"two over, later", func(at time.Duration) bool { return at >= 500*time.Millisecond && at < 630*time.Millisecond }, 2},
	} {
		if got := overAdmitted(tenPerSecond, every10ms(time.Second, c.admitted)); got != c.want {
			t.Errorf("%s: %d over-admitted, want %d", c.name, got, c.want)
		}
	}
}

func TestDueRefused(t *testing.T) {
	n := 0
	for _, c := range []struct {
		name     string
		admitted func(at time.Duration) bool
		want     int64
	}{
		{"none of 10 and 9 that come back", func(time.Duration) bool { return false }, 19},
		{"all", func(time.Duration) bool { return true }, 0},
		{"the burst alone", func(at time.Duration) bool { return at < 100*time.Millisecond }, 9},
		{"half of the burst, and nothing else", func(time.Duration) bool { n++; return n <= 5 }, 14},
	} {
		if got := dueRefused(tenPerSecond, every10ms(time.Second, c.admitted)); got != c.want {
			t.Errorf("%s: %d refused though due, want %d", c.name, got, c.want)
		}
	}
}
