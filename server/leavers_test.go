package server_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// freeSlots is how many slots the rule "streams" has.
func (r *running) freeSlots(t testing.TB) int64 {
	t.Helper()
	d, err := connect(t, r.url).Check(t.Context(), &fluxgate.Request{Path: "/stream", Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A batch whose caller leaves while one of its requests waits gives back what the others have
// taken, once. What was sent before stays with the caller.
func TestBatch_CallerLeaves(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `id: api-limits
rules:
  - {id: streams, path: /stream, bands: [{kind: concurrency, capacity: 10, hold: 1h}]}
  - {id: queue, path: /queue, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 25s}]}
`)
	r := start(t, "rules.file="+file, "redis.enabled=false", "wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=28s")
	r.do(t, http.MethodPost, "/v1/check", `{"path":"/queue"}`)
	const body = `{"requests":[{"path":"/stream"},{"path":"/stream"},{"path":"/queue"}]}`

	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/check:batch", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		response, err := r.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		left <- err
	}()
	testenv.Eventually(t, "two requests have slots", func() bool { return r.freeSlots(t) == 8 })
	leave()
	if err := <-left; err == nil {
		t.Fatal("the batch was answered")
	}
	testenv.Eventually(t, "the slots are free", func() bool { return r.freeSlots(t) == 10 })
	if n := r.metric(t, "fluxgate_withdrawn_decisions_total"); n != "2" {
		t.Errorf("%s decisions are withdrawn, want 2", n)
	}

	ctx, leave = context.WithCancel(t.Context())
	request, err = http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/check:batch", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := r.client.Do(request) // the first lines
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]byte, 4096)
	n, err := response.Body.Read(lines)
	for err == nil && strings.Count(string(lines[:n]), "\n") < 2 {
		var more int
		more, err = response.Body.Read(lines[n:])
		n += more
	}
	if err != nil || strings.Count(string(lines[:n]), `"allowed":true`) != 2 {
		t.Fatalf("%v: %s", err, lines[:n])
	}
	leave()
	_ = response.Body.Close()
	testenv.Eventually(t, "no request waits", func() bool { return r.metric(t, "fluxgate_waiting") == "0" })
	if free := r.freeSlots(t); free != 8 {
		t.Errorf("%d slots are free, want 8: two were sent", free)
	}
}
