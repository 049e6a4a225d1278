package server_test

import (
	"context"
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
