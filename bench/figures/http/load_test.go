package http_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder is a ResponseWriter that is used again and costs nothing.
type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// addresses are callers, more than one cache line of them.
var addresses = func() (all [256]string) {
	for i := range all {
		all[i] = fmt.Sprintf("192.0.2.%d:1234", i)
	}
	return all
}()

func newRequest() *http.Request {
	return httptest.NewRequest(http.MethodGet, "/api/orders/17", http.NoBody)
}

// perRequest is the time of one request, in nanoseconds.
func perRequest(h http.Handler, n int) float64 {
	w, r := newRecorder(), newRequest()
	start := time.Now()
	for i := range n {
		clear(w.header)
		r.RemoteAddr = addresses[i%len(addresses)]
		h.ServeHTTP(w, r)
	}
	return float64(time.Since(start)) / float64(n)
}

func allocations(h http.Handler) float64 {
	w, r := newRecorder(), newRequest()
	i := 0
	return testing.AllocsPerRun(10_000, func() {
		clear(w.header)
		i++
		r.RemoteAddr = addresses[i%len(addresses)]
		h.ServeHTTP(w, r)
	})
}

// perSecond is how many requests so many callers have decided in a second.
func perSecond(t *testing.T, h http.Handler, callers int, length time.Duration) float64 {
	t.Helper()
	var served, refused atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for caller := range callers {
		all.Go(func() {
			w, r := newRecorder(), newRequest()
			n := int64(0)
			for time.Since(start) < length {
				clear(w.header)
				r.RemoteAddr = addresses[(caller*7+int(n))%len(addresses)]
				h.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					refused.Add(1)
				}
				n++
			}
			served.Add(n)
		})
	}
	all.Wait()
	if refused.Load() > served.Load()/100 {
		t.Errorf("%d of %d requests were refused", refused.Load(), served.Load())
	}
	return float64(served.Load()) / time.Since(start).Seconds()
}
