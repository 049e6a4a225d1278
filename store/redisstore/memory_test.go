package redisstore

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// usedMemory is the memory that an idle server uses.
func usedMemory(t testing.TB, server *testenv.Server) int64 {
	t.Helper()
	var readings []int64
	until(t, "the memory stands still", func() bool {
		info, err := server.Info(t.Context(), "memory")
		if err != nil {
			t.Fatal(err)
		}
		used, err := strconv.ParseInt(info["used_memory"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		readings = append(readings, used)
		last := readings[max(0, len(readings)-10):]
		return len(last) == 10 && slices.Max(last)-slices.Min(last) < 64<<10
	})
	return readings[len(readings)-1]
}

// What a bucket of one band takes, where the allocator has sizes 8 (and 16)
// bytes apart: its entry among the keys 24 (32), its name 48, its value 48, its
// entry among the expiries 24 (32), and in each of the two tables 8 to 16, as
// they are full. A million of them fill the tables as these do.
func TestMemory_PerBucket(t *testing.T) {
	const buckets = 125_000
	bands := []rules.Band{
		{Capacity: 100, Refill: 24 * time.Hour},
		{Capacity: 1_000, Refill: 7 * 24 * time.Hour},
		{Capacity: 10_000, Refill: 30 * 24 * time.Hour},
	}
	for count, most := range map[int]float64{1: 200, 3: 250} {
		t.Run(strconv.Itoa(count)+" bands", func(t *testing.T) {
			server := testenv.StartStandalone(t, testenv.Config{})
			p := newProbe(t, openStore(t, server.URI(), Config{}))
			d := p.demand("rule", 1, bands[:count]...)
			before := usedMemory(t, server)
			one := populate(t, p.Store, server, buckets, d)
			grown := float64(usedMemory(t, server)-before) / buckets
			usage, err := server.Do(t.Context(), "MEMORY", "USAGE", p.name(one))
			if err != nil {
				t.Fatal(err)
			}
			value, err := server.Do(t.Context(), "GET", p.name(one))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d buckets of %d bands: %.1f bytes each as used_memory grows (MEMORY USAGE says %v; key %d bytes, value %d)",
				buckets, count, grown, usage, len(p.name(one)), len(value.(string)))
			if grown > most {
				t.Errorf("%.1f bytes for a bucket, more than %.0f", grown, most)
			}
		})
	}
}
