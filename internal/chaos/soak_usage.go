package chaos

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is what a server process uses, by its own metrics.
type Usage struct {
	Heap        int // bytes that are reachable, as of the last collection
	Goroutines  int
	Descriptors int
	Connections int // to Redis
}

// String returns a line for people.
func (u Usage) String() string {
	return fmt.Sprintf("heap %.2f MB, %d goroutines, %d descriptors, %d connections to Redis",
		float64(u.Heap)/(1<<20), u.Goroutines, u.Descriptors, u.Connections)
}

// growthBar is how much more a server may use at the end than at the beginning.
const growthBar = 1.05

// Above returns what exceeds other by more than the bar.
func (u Usage) Above(other Usage) (what []string) {
	for _, one := range []struct {
		name       string
		end, begin int
	}{
		{"heap", u.Heap, other.Heap}, {"goroutines", u.Goroutines, other.Goroutines},
		{"descriptors", u.Descriptors, other.Descriptors}, {"connections to Redis", u.Connections, other.Connections},
	} {
		if float64(one.end) > growthBar*float64(one.begin) {
			what = append(what, fmt.Sprintf("%s: %d at the beginning, %d at the end", one.name, one.begin, one.end))
		}
	}
	return what
}

// metrics returns the series that the server exports, with their values.
func (d *Daemon) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.Admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // a compressor would be a tenth of the heap
	status, body, err := exchange(d.http, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("metrics: status %d", status)
	}
	if err != nil {
		return nil, err
	}
	series := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if series[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
	}
	return series, nil
}

// mustMetrics is metrics of a server that must answer.
func (d *Daemon) mustMetrics(tb testing.TB) map[string]float64 {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	series, err := d.metrics(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return series
}

// collections is how many collections free what the server no longer uses: a
// sync.Pool keeps its values for one. After so many the smallest heap of as many
// more counts, since each keeps what is allocated while it runs.
const collections = 3

// The metrics of a collection.
const (
	collectionCount = "go_gc_duration_seconds_count"
	liveHeap        = "go_gc_heap_live_bytes"
)

// collected returns the metrics after collections. Nothing forces one in another
// process: the scrapes allocate until they happen.
func (d *Daemon) collected(tb testing.TB) map[string]float64 {
	tb.Helper()
	series := d.mustMetrics(tb)
	first, heap := series[collectionCount], math.Inf(1)
	for end := time.Now().Add(time.Minute); series[collectionCount] < first+2*collections; series = d.mustMetrics(tb) {
		if time.Now().After(end) {
			tb.Fatal("the server collects no garbage")
		}
		if series[collectionCount] >= first+collections {
			heap = min(heap, series[liveHeap])
		}
	}
	series[liveHeap] = min(heap, series[liveHeap])
	return series
}

// usage returns what the server uses after a collection. Connections are counted by
// the caller.
func (d *Daemon) usage(tb testing.TB) Usage {
	tb.Helper()
	series := d.collected(tb)
	return Usage{
		Heap: int(series[liveHeap]), Goroutines: int(series["go_goroutines"]), Descriptors: int(series["process_open_fds"]),
	}
}
