package adminapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
)

// Callers are limited by identity, or by address without one. The limits are 20 and 2 a
// minute; the test allows for tokens that are refilled while it runs.
func TestLimit_Caller(t *testing.T) {
	r := start(t, func(s *settings) { s.rate = 20 })
	began := time.Now()
	get := func(token string) answer {
		t.Helper()
		return r.send(t, http.MethodGet, "/v1/whoami", "", "Authorization", token)
	}
	// until sends requests until one has this status, and returns how many had
	// another.
	until := func(token string, status int) (answer, int) {
		t.Helper()
		for n := range 1_000 {
			if got := get(token); got.status == status {
				return got, n
			}
		}
		t.Fatalf("never answers %d", status)
		return answer{}, 0
	}
	limited, n := until("Bearer "+tokenRead, http.StatusTooManyRequests)
	if back := int(time.Since(began) / (3 * time.Second)); n < 20 || n > 21+back {
		t.Errorf("a caller may send %d requests", n)
	}
	p := limited.problem(t)
	if p.Kind != admin.KindLimited || p.Status != http.StatusTooManyRequests || p.Detail == "" || p.Title == "" {
		t.Errorf("the problem is %+v", p)
	}
	if seconds, err := strconv.Atoi(limited.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 3 {
		t.Errorf("Retry-After is %q", limited.header.Get("Retry-After"))
	}
	if got := limited.header.Get("RateLimit-Policy"); !strings.Contains(got, "q=20") || !strings.Contains(got, "w=60") {
		t.Errorf("RateLimit-Policy is %q", got)
	}
	if got := limited.header.Get("RateLimit"); !strings.Contains(got, "r=0") {
		t.Errorf("RateLimit is %q", got)
	}
	if limited.header.Get("X-RateLimit-Limit") != "20" || limited.header.Get("X-RateLimit-Remaining") != "0" || limited.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %v", limited.header)
	}
	// Others are not affected.
	if got := get("Bearer "+tokenWrite).want(t, http.StatusOK); got.header.Get("X-RateLimit-Remaining") != "19" {
		t.Errorf("another caller has %s left", got.header.Get("X-RateLimit-Remaining"))
	}
	// Without an identity the limit is a tenth, by address, whatever the token.
	strange := time.Now()
	_, n = until("Bearer wrong", http.StatusTooManyRequests)
	if back := int(time.Since(strange) / (30 * time.Second)); n < 2 || n > 3+back {
		t.Errorf("a caller without an identity may send %d requests", n)
	}
	for i := range 5 {
		if got := get(fmt.Sprint("Bearer wrong", i)); got.status != http.StatusTooManyRequests && time.Since(strange) < 20*time.Second {
			t.Errorf("another wrong token has status %d", got.status)
		}
	}
	get("Bearer "+tokenWrite).want(t, http.StatusOK)
}

// Without authentication the limit is by address.
func TestLimit_Address(t *testing.T) {
	r := start(t, func(s *settings) {
		s.server.Auth = config.Auth{}
		s.rate = 30
	})
	var who admin.Who
	got := r.send(t, http.MethodGet, "/v1/whoami", "", "Authorization", "").want(t, http.StatusOK)
	got.into(t, &who)
	if who.Name != "anonymous" || fmt.Sprint(who.Roles) != "[check read write identities support]" || got.header.Get("X-RateLimit-Limit") != "30" {
		t.Errorf("the caller is %+v with a limit of %s", who, got.header.Get("X-RateLimit-Limit"))
	}
}
