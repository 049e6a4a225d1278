package chaos

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// batches checks requests of n API keys.
func (d *Daemon) batches(t *testing.T, n int, key func(i int) string) {
	t.Helper()
	const each = 100
	var next atomic.Int64
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for {
				from := int(next.Add(each)) - each
				if from >= n {
					return
				}
				if err := d.batch(t.Context(), from, min(n, from+each), key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
}

func (d *Daemon) batch(ctx context.Context, from, to int, key func(i int) string) error {
	var b strings.Builder
	b.WriteString(`{"requests":[`)
	for i := from; i < to; i++ {
		if i > from {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"apiKey":%q,"path":"/orders"}`, key(i))
	}
	b.WriteString("]}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Addr+"/v1/check:batch", strings.NewReader(b.String()))
	if err != nil {
		return err
	}
	status, text, err := exchange(d.http, req)
	if err == nil && (status != http.StatusOK || strings.Count(string(text), `"allowed":true`) != to-from) {
		err = fmt.Errorf("status %d: %.200s", status, text)
	}
	return err
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// maxBucketBytes is what the memory store may use for each of its buckets. It varies
// with the load of its maps, which have up to twice the room that they need.
const maxBucketBytes = 400

// The memory of a memory store is bounded, however many identities come.
func TestAbuse_IdentitiesInStore_NoRace(t *testing.T) {
	identities := size(200_000, 10_000_000)
	most := identities / 10
	begin := heapInUse()
	store, err := memstore.New(memstore.Config{MaxBuckets: most})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet(ruleSetID, rules.Rule{ID: "per-key", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerHour(100)}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		t.Fatal(err)
	}
	for i := range identities {
		if d, err := engine.Check(t.Context(), &fluxgate.Request{APIKey: fmt.Sprint("key-", i), Path: "/orders"}); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	end, stats := heapInUse(), store.Stats()
	runtime.KeepAlive(engine)
	t.Logf("%d identities: %d buckets, %.0f bytes each", identities, stats.Buckets, (end-begin)/float64(stats.Buckets))
	if stats.Buckets > most || end-begin > float64(most)*maxBucketBytes {
		t.Errorf("%d buckets of at most %d have %.1f MB", stats.Buckets, most, (end-begin)/(1<<20))
	}
}

// The memory of a server is bounded, however many identities come: without Redis it
// has a memory store, with Redis at most the last levels that a fallback begins with.
func TestAbuse_Identities(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		abuseIdentities(t, size(50_000, 10_000_000), 1_000_000, "1h", inMemory)
	})
	t.Run("Redis", func(t *testing.T) {
		redis := testenv.StartStandalone(t, testenv.Config{})
		// Buckets are full again after a moment, so that Redis needs little memory.
		abuseIdentities(t, size(20_000, 3_000_000), 100_000, "1s", "redis.uri="+redis.URI(), "redis.timeout=5s")
	})
}

// abuseIdentities checks requests of so many identities, of which a server may
// remember at most some.
func abuseIdentities(t *testing.T, identities, remembered int, refill string, set ...string) {
	t.Helper()
	d := abused(t, "{id: per-key, limitScope: API_KEY, bands: [{capacity: 100, refill: "+refill+"}]}", set...)
	begin := d.collected(t)[liveHeap]
	start := time.Now()
	d.batches(t, identities, func(i int) string { return fmt.Sprint("key-", i) })
	took := time.Since(start)
	end := d.collected(t)
	t.Logf("%d identities in %v: heap %.1f MB, then %.1f MB; resident %.0f MB", identities, took.Round(time.Millisecond),
		begin/(1<<20), end[liveHeap]/(1<<20), end["process_resident_memory_bytes"]/(1<<20))
	if each := (end[liveHeap] - begin) / float64(min(identities, remembered)); each > maxBucketBytes {
		t.Errorf("%.0f bytes for each of the %d identities that may be remembered", each, min(identities, remembered))
	}
}
