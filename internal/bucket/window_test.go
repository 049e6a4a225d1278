package bucket

import (
	"math/rand/v2"
	"testing"
	"time"
)

// taken is an entry of a full log.
type taken struct{ at, cost int64 }

// inWindow is what a log has in the time before a moment.
func inWindow(log []taken, now, length int64) (sum int64) {
	for i := len(log) - 1; i >= 0 && log[i].at > now-length; i-- {
		sum += log[i].cost
	}
	return sum
}

// Over random histories a sliding window never admits more than its capacity in any
// interval of its period, and refuses only what a log of its admissions over 17/16
// of the period would refuse too.
func TestWindow_AgainstFullLogs(t *testing.T) {
	histories := 20_000
	if testing.Short() {
		histories = 1_000
	}
	r := rand.New(rand.NewPCG(5, 6))
	var admitted, refused int
	for range histories {
		capacity := 1 + r.Int64N([]int64{1, 5, 40, 1_000_000}[r.IntN(4)])
		length := []time.Duration{2 * time.Millisecond, time.Second, time.Minute, 30 * 24 * time.Hour}[r.IntN(4)]
		b, err := NewWindow(1, capacity, length)
		if err != nil {
			t.Fatal(err)
		}
		s := single{bands: []Band{b}}
		now := 1_700_000_000_000_000 + r.Int64N(1_000_000_000)
		var log []taken
		for range 40 + r.IntN(60) {
			now += r.Int64N([]int64{2, b.SlotLength(), 4 * b.SlotLength(), length.Microseconds()}[r.IntN(4)])
			cost := 1 + r.Int64N(capacity)/(1+r.Int64N(8))
			if s.take(cost, now) {
				admitted++
				if sum := inWindow(log, now, length.Microseconds()) + cost; sum > capacity {
					t.Fatalf("%d of %d in %v", sum, capacity, length)
				}
				log = append(log, taken{now, cost})
				continue
			}
			refused++
			if sum := inWindow(log, now, length.Microseconds()*17/16) + cost; sum <= capacity {
				t.Fatalf("refused %d, though %d of %d were taken in 17/16 of %v", cost, sum-cost, capacity, length)
			}
		}
	}
	t.Logf("%d histories: %d admitted, %d refused", histories, admitted, refused)
}
