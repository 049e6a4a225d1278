package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// One address cannot take all wait slots: another one is still held instead of
// rejected. The limit is a token a second for each address.
func TestWaitSlots_OneAddress(t *testing.T) {
	const crowd, slots = 60, 20
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `
id: api-limits
rules:
  - id: by-address
    limitScope: IP
    onLimitExceed: WAIT_FOR_REFILL
    bands: [{capacity: 1, refill: 1s}]
`)
	r := start(t, "redis.enabled=false", "rules.file="+file,
		"wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=25s", "wait-for-refill.max-concurrent-waits=20")
	check := func(ctx context.Context, ip string) (body string, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/check", strings.NewReader(`{"ip":"`+ip+`"}`))
		if err != nil {
			return "", err
		}
		res, err := r.client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var answered atomic.Int64
	for range crowd {
		wg.Go(func() {
			if _, err := check(ctx, "203.0.113.7"); err == nil {
				answered.Add(1)
			}
		})
	}
	// All but those that are held are answered; without shares 20 are held.
	testenv.Eventually(t, "the crowd is answered or held", func() bool { return answered.Load() >= crowd-slots })
	for i := range 2 {
		body, err := check(t.Context(), "203.0.113.8")
		if err != nil || !strings.Contains(body, `"allowed":true`) {
			t.Errorf("request %d of another address: %s %v", i, body, err)
		}
	}
}

// Batches whose requests wait for tokens keep no slot: more batches of the same caller are
// answered at once. Without that each is refused after a second.
func TestWaitSlots_Batches(t *testing.T) {
	const held = 20 // a caller may have 16 decided at once
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `
id: api-limits
rules:
  - {id: held, path: /held, limitScope: API_KEY, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 10s}]}
`)
	r := start(t, "redis.enabled=false", "rules.file="+file, "wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=20s")
	post := func(ctx context.Context, body string) (status int, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/check:batch", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		res, err := r.client.Do(req)
		if err == nil {
			err = res.Body.Close()
			status = res.StatusCode
		}
		return status, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	for i := range held {
		one := fmt.Sprintf(`{"apiKey":"key-%d","path":"/held"}`, i)
		waiting.Go(func() { _, _ = post(ctx, `{"requests":[`+one+`,`+one+`]}`) })
	}
	testenv.Eventually(t, "all batches are held", func() bool {
		return strings.Contains(r.do(t, http.MethodGet, "/metrics", "").body, fmt.Sprintf("fluxgate_waiting %d\n", held))
	})
	if status, err := post(ctx, `{"requests":[{"apiKey":"ann","path":"/"}]}`); status != http.StatusOK || err != nil {
		t.Errorf("another batch: %d, %v", status, err)
	}
}
