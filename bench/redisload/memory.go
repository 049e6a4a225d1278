package redisload

import (
	"strconv"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// BytesPerBucket is the growth of the server's memory over new buckets, for each of them.
func BytesPerBucket(t *testing.T, buckets int, bands ...rules.Band) float64 {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	take := Take(t, Open(t, server.URI()), 1, bands...)
	before := usedMemory(t, server)
	var wg sync.WaitGroup
	for caller := range Callers {
		wg.Go(func() {
			for n := caller; n < buckets; n += Callers {
				if err := take(t.Context(), caller, uint64(n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	size, err := server.Do(t.Context(), "DBSIZE")
	if err != nil || size.(int64) < int64(buckets) {
		t.Fatalf("%v keys for %d buckets: %v", size, buckets, err)
	}
	return (usedMemory(t, server) - before) / float64(buckets)
}

func usedMemory(t *testing.T, server *testenv.Server) float64 {
	t.Helper()
	info, err := server.Info(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseFloat(info["used_memory"], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
